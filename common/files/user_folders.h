#pragma once

#include <filesystem>
#include <string>

namespace virtrain {

/// The folder in which this user's own things lie: $HOME, if that is an absolute path; for root where that is
/// somebody else's (sudo --preserve-env=HOME), root's own by the list of accounts, so that root leaves
/// nothing in a user's home.
std::filesystem::path home_folder();

/// $`variable` (one of the XDG base directories) by the same rule; empty: not set, or passed over.
std::filesystem::path chosen_folder(const char* variable);

/// chosen_folder(), else `below_home` in home_folder().
std::filesystem::path user_folder(const char* variable, const char* below_home);

/// Which of $HOME and the XDG variables root passes over, as "HOME (/home/ada, of user 1000)"; empty: none.
std::string passed_over_folders();
/// Takes these out of our environment: as root what we start (mpirun, its ranks) would read settings and load
/// libraries from them. Before any thread is started.
void leave_folders_of_others();

/// Makes the folder and its parents, the last one with exactly `mode`, whatever the umask; one that exists
/// loses what `mode` does not allow. Throws Error where it is no folder, another user's or behind a link of
/// theirs, or shared by all (sticky).
void make_own_folder(const std::filesystem::path& folder, unsigned mode);

/// TMPDIR, or else /tmp.
std::filesystem::path temporary_folder();

/// A new folder that only this user can enter, with a name that nobody foresees. It goes with all in it when
/// this goes.
class PrivateFolder {
 public:
  /// `above`: the folder that it is made in. What fails is Error(io) of this operation.
  explicit PrivateFolder(const std::string& operation,
                         const std::filesystem::path& above = temporary_folder());
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace virtrain
