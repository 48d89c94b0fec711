#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/files/unique_fd.h"

namespace virtrain::vmctl {

/// A libvirt daemon of this run's own, with libvirt's session driver. It serves nobody else and ends with
/// this object. A user's runs as that user; root's as the account that libvirt's packages make for QEMU,
/// since libvirt has no session for root.
class PrivateLibvirt {
 public:
  /// A name for its folder that nobody can guess: what makes it first notes it where a later clean looks.
  static std::filesystem::path new_folder_name();

  /// Makes that folder and returns once the daemon answers: its first look at QEMU takes minutes on a busy
  /// host, and is waited for as long as it moves. `folder_gone` is told when the folder is removed again.
  /// Throws Error(host_unable) with its last words.
  PrivateLibvirt(std::filesystem::path folder, std::function<void()> folder_gone,
                 const Cancelled& cancelled = {});
  ~PrivateLibvirt();
  PrivateLibvirt(const PrivateLibvirt&) = delete;
  PrivateLibvirt& operator=(const PrivateLibvirt&) = delete;

  const std::string& uri() const { return uri_; }
  /// Where it keeps QEMU's logs, below libvirt/qemu/log; empty: in the user's own.
  std::filesystem::path cache() const { return other_user_ ? folder_ / "cache" : std::filesystem::path(); }
  /// Whose the VMs' processes are, where that is not this process's user: files they write have to be given
  /// to it.
  std::optional<uid_t> other_user() const { return other_user_; }

 private:
  void start(const std::filesystem::path& program);
  void wait_until_it_answers(const Cancelled& cancelled);
  void stop();
  std::string last_words() const;

  std::filesystem::path folder_;  ///< its sockets, settings and log; no other user can enter
  std::function<void()> folder_gone_;
  std::string uri_;
  std::optional<uid_t> other_user_;
  UniqueFd log_;  ///< what the daemon writes to its standard streams
  pid_t daemon_ = 0;
};

}  // namespace virtrain::vmctl
