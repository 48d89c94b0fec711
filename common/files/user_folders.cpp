#include "common/files/user_folders.h"

#include <fmt/format.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>

#include "common/error.h"
#include "common/files/open_folder.h"

namespace virtrain {
namespace {

namespace fs = std::filesystem;

/// Its folder; empty where it is not set, or relative, which the XDG Base Directory Specification ignores.
fs::path folder_in(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

/// Whose folder this is; of one that does not exist, whose its nearest parent is.
std::optional<uid_t> owner_of(fs::path folder) {
  struct stat status {};
  while (::stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT || !folder.has_relative_path()) { return std::nullopt; }
    folder = folder.parent_path();
  }
  return status.st_uid;
}

/// Whether another user owns the folder while we are root.
bool is_of_somebody_else(const fs::path& folder) {
  return ::geteuid() == 0 && owner_of(folder).value_or(0) != 0;
}

/// Variables that leave_folders_of_others() has taken out.
std::string& left_folders() {
  static std::string words;
  return words;
}

fs::path home_of_account() {
  const passwd* account = ::getpwuid(::geteuid());
  return account != nullptr && account->pw_dir != nullptr ? account->pw_dir : "/";
}

}  // namespace

fs::path home_folder() {
  const auto home = folder_in("HOME");
  return home.empty() || is_of_somebody_else(home) ? home_of_account() : home;
}

fs::path chosen_folder(const char* name) {
  const auto chosen = folder_in(name);
  return chosen.empty() || is_of_somebody_else(chosen) ? "" : chosen;
}

fs::path user_folder(const char* name, const char* below_home) {
  const auto chosen = chosen_folder(name);
  return chosen.empty() ? home_folder() / below_home : chosen;
}

std::string passed_over_folders() {
  std::string found = left_folders();
  for (const char* name : {"HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}) {
    const auto folder = folder_in(name);
    if (folder.empty() || !is_of_somebody_else(folder)) { continue; }
    found += fmt::format("{}{} ({}, of user {})", found.empty() ? "" : ", ", name, folder.string(),
                         owner_of(folder).value_or(0));
  }
  return found;
}

void leave_folders_of_others() {
  left_folders() = passed_over_folders();
  for (char** entry = environ; ::geteuid() == 0 && *entry != nullptr;) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    const bool is_foreign = name.starts_with("XDG_") && is_of_somebody_else(folder_in(name.c_str()));
    // The list moves up where one is taken out.
    if (!is_foreign || ::unsetenv(name.c_str()) != 0) { ++entry; }
  }
  if (is_of_somebody_else(folder_in("HOME"))) { ::setenv("HOME", home_folder().c_str(), 1); }
}

void make_own_folder(const fs::path& folder, unsigned mode) {
  constexpr mode_t usual = 0777;
  const auto operation = "make folder " + folder.string();
  const auto normal = fs::absolute(folder).lexically_normal();
  const FilePlace place(normal.has_filename() ? normal : normal.parent_path(), operation, LastLink::stays,
                        usual);
  const bool made = ::mkdirat(place.folder.get(), place.name.c_str(), mode) == 0;
  if (!made && errno != EEXIST) { throw errno_error(operation, errno); }
  // A link of root's or of our own is a way to put it on another disk.
  const auto fd = open_folder(place.path(), operation);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) { throw errno_error(operation, errno); }
  if (status.st_uid != ::geteuid()) {
    throw Error(
        operation, ErrorCode::host_unable,
        fmt::format("it belongs to user {}, who could read and change what is in it; choose a folder of "
                    "your own",
                    status.st_uid));
  }
  if ((status.st_mode & S_ISVTX) != 0) {
    throw Error(operation, ErrorCode::host_unable, "it is shared by all users; choose a folder of your own");
  }
  const unsigned wanted = made ? mode : status.st_mode & 07777 & mode;
  if ((status.st_mode & 07777) != wanted &&
      ::chmod(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), wanted) != 0) {
    throw errno_error(operation, errno);
  }
}

std::filesystem::path temporary_folder() {
  std::error_code none;
  auto folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder;
}

PrivateFolder::PrivateFolder(const std::string& operation, const std::filesystem::path& above) {
  auto name = (above / ".virtrain-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) { throw errno_error(operation, errno); }
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace virtrain
