#pragma once

#include <optional>
#include <string>

#include "vmctl/process/child.h"

namespace virtrain::vmctl {

/// Whom this process works for. As root that is who called sudo, or who made the socket that is standard
/// input: nodes on bare metal run as that user, and what a coordinator names is opened as that user. Decided
/// at the first call, which must come while standard input is still the coordinator's.
const Identity& calling_user();

/// Decides it: `sudo_uid` is that variable's text, `peer` who made the socket. Throws Error(host_unable) for
/// a number that is none.
Identity calling_user_of(const std::optional<std::string>& sudo_uid, const std::optional<Identity>& peer);

/// Whether it is another user than the one this process runs as.
bool works_for_another();

/// Where it works for another, whose sudo may have been started with anything: takes root's own PATH, home
/// and limits in place of those that came along. What root started itself, sudo's own root included, stays as
/// it is. Before there are threads.
void take_own_surroundings();

/// The home of the user's account; "/" without one.
std::string home_of(const Identity& user);

/// While it lives, this thread looks for, opens and makes files with that user's rights and no others. Does
/// nothing for the user that this process runs as.
class AsUser {
 public:
  explicit AsUser(const Identity& user);
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();

 private:
  const bool is_other_;
  Identity own_;
};

}  // namespace virtrain::vmctl
