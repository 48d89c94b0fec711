#include "common/files/open_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"

namespace virtrain {
namespace {

namespace fs = std::filesystem;

uid_t owner_of_open(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_uid : static_cast<uid_t>(-1);
}

/// Splits "/proc/self/fd/7/rest" into the folder that is open there, which its name need not lead to any
/// more, and the rest.
std::optional<std::pair<std::string, fs::path>> beginning_with_descriptor(const fs::path& path) {
  const std::string text = path.string();
  constexpr std::string_view folder = "/proc/self/fd/";
  if (!text.starts_with(folder)) { return std::nullopt; }
  const auto end = text.find_first_not_of("0123456789", folder.size());
  if (end == folder.size() || (end != std::string::npos && text[end] != '/')) { return std::nullopt; }
  return std::pair(text.substr(0, end),
                   end == std::string::npos ? fs::path() : fs::path(text.substr(end + 1)));
}

/// One way through folders; `at_` is where it has come.
class Walk {
 public:
  Walk(const fs::path& path, const std::string& operation, std::optional<mode_t> make)
      : operation_(operation), make_(make) {
    if (const auto open = beginning_with_descriptor(path)) {
      go_to(open->first.c_str());
      add(open->second);
    } else {
      go_to(path.is_absolute() ? "/" : ".");
      add(path);
    }
  }

  UniqueFd end() {
    while (!parts_.empty()) { step(next_part()); }
    return std::move(at_);
  }

  /// To the folder of the last part, whose name it gives back.
  std::string end_before_last(LastLink last) {
    while (!parts_.empty()) {
      const auto part = next_part();
      if (!parts_.empty()) {
        step(part);
      } else if (!is_followed_link(part, last)) {
        return part;
      }
    }
    return "";
  }

 private:
  [[noreturn]] void fail(int error) const { throw errno_error(operation_, error); }

  void go_to(const char* place) {
    at_ = UniqueFd(::open(place, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_) { fail(errno); }
  }

  void add(const fs::path& path) {
    std::deque<std::string> parts;
    for (const auto& part : path.relative_path()) {
      if (!part.empty() && part != ".") { parts.push_back(part); }
    }
    parts_.insert(parts_.begin(), parts.begin(), parts.end());
  }

  std::string next_part() {
    auto part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }

  bool is_followed_link(const std::string& part, LastLink last) {
    if (last == LastLink::stays) { return false; }
    const auto found = open_part(part, 0);
    struct stat status {};
    if (!found || ::fstat(found.get(), &status) != 0) { return false; }
    errno = ENOTDIR;
    if (!S_ISLNK(status.st_mode)) { return false; }
    follow(found.get(), part, status.st_uid);
    return true;
  }

  /// Only O_DIRECTORY has an automounter mount what is to be there.
  UniqueFd open_part(const std::string& part, int kind) const {
    return UniqueFd(::openat(at_.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC | kind));
  }

  void step(const std::string& part) {
    auto next = open_part(part, O_DIRECTORY);
    if (!next && errno == ENOENT && make_) {
      if (::mkdirat(at_.get(), part.c_str(), *make_) != 0 && errno != EEXIST) { fail(errno); }
      next = open_part(part, O_DIRECTORY);
    }
    if (!next && errno == ENOTDIR && is_followed_link(part, LastLink::is_followed)) { return; }
    if (!next) { fail(errno); }
    at_ = std::move(next);
  }

  void follow(int link, const std::string& part, uid_t owner) {
    constexpr int most_links = 40;  // the kernel's own bound
    const auto folder_owner = owner_of_open(at_.get());
    if (!is_trusted_owner(owner) || !is_trusted_owner(folder_owner)) {
      throw Error(operation_, ErrorCode::host_unable,
                  fmt::format("{} is a link that belongs to user {}, who could turn it elsewhere; give the "
                              "path that it leads to",
                              excerpt(part), is_trusted_owner(owner) ? folder_owner : owner));
    }
    char target[PATH_MAX];
    const auto size = ::readlinkat(link, "", target, sizeof target);
    if (size <= 0 || ++links_ > most_links) { fail(ELOOP); }
    const fs::path to(std::string(target, static_cast<std::size_t>(size)));
    if (to.is_absolute()) { go_to("/"); }
    add(to);
  }

  const std::string& operation_;
  std::optional<mode_t> make_;
  std::deque<std::string> parts_;
  UniqueFd at_;
  int links_ = 0;
};

}  // namespace

UniqueFd open_folder(const fs::path& path, const std::string& operation, std::optional<mode_t> make) {
  return Walk(path, operation, make).end();
}

FilePlace::FilePlace(const fs::path& path, const std::string& operation, LastLink last,
                     std::optional<mode_t> make) {
  Walk walk(path, operation, make);
  name = walk.end_before_last(last);
  folder = walk.end();
  if (name.empty() || name == ".." || path.filename().empty()) { throw errno_error(operation, EISDIR); }
}

fs::path FilePlace::path() const {
  return fs::path("/proc/self/fd") / std::to_string(folder.get()) / name;
}

bool others_may_exchange_in(int folder) {
  constexpr mode_t others_write = S_IWGRP | S_IWOTH;
  struct stat status {};
  if (::fstat(folder, &status) != 0 || !is_trusted_owner(status.st_uid)) { return true; }
  return (status.st_mode & others_write) != 0 && (status.st_mode & S_ISVTX) == 0;
}

bool is_trusted_owner(uid_t owner) {
  struct stat root {};
  return owner == 0 || owner == ::geteuid() || (::lstat("/", &root) == 0 && owner == root.st_uid);
}

uid_t folder_owner(const std::filesystem::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_uid : 0;
}

void refuse_links_of_others(const std::filesystem::path& path, const std::string& operation) {
  for (auto part = std::filesystem::absolute(path).lexically_normal(); part.has_relative_path();
       part = part.parent_path()) {
    struct stat status {};
    if (::lstat(part.c_str(), &status) != 0 || !S_ISLNK(status.st_mode) || is_trusted_owner(status.st_uid)) {
      continue;
    }
    throw Error(
        operation, ErrorCode::host_unable,
        fmt::format("{} is a link that belongs to user {}, who could turn it elsewhere; give the path "
                    "that it leads to",
                    excerpt(part.string()), status.st_uid));
  }
}

}  // namespace virtrain
