#pragma once

#include <optional>
#include <string>

#include "common/enum_text.h"
#include "vmctl/api/host_mode.h"
#include "vmctl/process/child.h"

namespace virtrain::vmctl {

// Both are decided at the first call, which must come while standard input is still the coordinator's.

/// Whom nodes on bare metal run as: as root who made the socket that is standard input, or, if that was root
/// too, who called sudo.
const Identity& calling_user();
/// Whom the coordinator runs as: who made that socket; where it is none, calling_user(). Files that it names
/// are opened as that user.
const Identity& coordinator_user();

/// Decides it: `sudo_uid` is that variable's text, `peer` who made the socket. Throws Error(host_unable) for
/// a number that is none.
Identity calling_user_of(const std::optional<std::string>& sudo_uid, const std::optional<Identity>& peer);

/// Whether the coordinator is another user's than this process.
bool works_for_another();

/// Where it works for another, whose sudo may have been started with anything: takes root's own PATH, home
/// and limits in place of those that came along. What root started itself, sudo's own root included, stays as
/// it is. Before there are threads.
void take_own_surroundings();

/// Where standard input is a socket: runs only on CPUs on which its maker may run, too, for those of a job's
/// process are the job's. Before there are threads.
void keep_to_cores_of_caller();

/// The home of the user's account; "/" without one.
std::string home_of(const Identity& user);

/// Throws Error(host_unable) where that user may not run the program: what lies in root's home, for one.
void require_runnable(const std::string& program, const Identity& user);

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

using virtrain::to_string;

/// Tried once for each process.
const Privileges& try_privileges();

/// Why root cannot run what it starts as another user, found out by trying; empty: it can.
std::string try_other_user();

}  // namespace virtrain::vmctl
