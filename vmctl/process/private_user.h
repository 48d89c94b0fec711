#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// A user id that nobody has, for work on what is not trusted: no account, no process and no range of
/// subordinate ids knows it, so no process of anybody else can touch what it makes. Where we are not root,
/// this user itself.
class PrivateUser {
 public:
  /// Draws one. Throws Error(host_unable) where none is free.
  PrivateUser();
  PrivateUser(const PrivateUser&) = delete;
  PrivateUser& operator=(const PrivateUser&) = delete;
  ~PrivateUser();

  uid_t id() const { return id_; }
  /// The command line that runs this one as that user, without groups and without a way to other rights.
  std::vector<std::string> command(std::vector<std::string> argv) const;
  /// Makes a new folder that is the user's.
  void make_folder(const std::filesystem::path& folder) const;
  /// Ends every process of the user, and then makes the folder and all in it root's, readable by all. Files
  /// and folders stay; links of either kind, pipes and devices, which lead elsewhere, are removed. Throws
  /// Error.
  void take_back(const std::filesystem::path& folder) const;
  /// SIGKILL to all of them at once; they cannot outrun it.
  void end_processes() const;

 private:
  bool is_other() const;
  uid_t id_;
};

}  // namespace virtrain::vmctl
