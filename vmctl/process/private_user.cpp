#include "vmctl/process/private_user.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/log.h"
#include "common/system/process_info.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/process/child.h"

namespace virtrain::vmctl {
namespace {

struct Range {
  std::int64_t first, last;
};
/// systemd.io/UIDS-GIDS: "unused" on every distribution; and, in a container to which fewer ids are mapped,
/// the ids of its dynamic users.
constexpr Range unused{1879048192, 2147483646};
constexpr Range dynamic{61184, 65519};

/// Whether the ids exist in our user namespace.
bool is_mapped(const Range& range) {
  for (const auto& line : split(read_file("/proc/self/uid_map").value_or(""), '\n')) {
    const auto words = words_of(line);  // first inside, first outside, count
    if (words.size() != 3) { continue; }
    const auto first = parse_integer(words[0]).value_or(0), count = parse_integer(words[2]).value_or(0);
    if (first <= range.first && range.last < first + count) { return true; }
  }
  return false;
}

/// "name:first:count" of those whom somebody may become in a user namespace of his.
bool is_subordinate(std::int64_t id) {
  for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
    for (const auto& line : split(read_file(file).value_or(""), '\n')) {
      const auto fields = split(line, ':');
      if (fields.size() != 3) { continue; }
      const auto first = parse_integer(fields[1]).value_or(0), count = parse_integer(fields[2]).value_or(0);
      if (first <= id && id < first + count) { return true; }
    }
  }
  return false;
}

bool has_process(uid_t id) {
  const auto processes = entries_of("/proc");
  return std::ranges::any_of(processes, [id](const auto& process) {
    struct stat status {};
    if (::stat(process.c_str(), &status) != 0 || status.st_uid != id) { return false; }
    const auto pid = parse_integer(process.filename().string());
    return pid && process_info(static_cast<pid_t>(*pid));  // a zombie has ended
  });
}

uid_t draw() {
  const Range range = is_mapped(unused) ? unused : dynamic;
  std::random_device device;
  std::uniform_int_distribution<std::int64_t> any(range.first, range.last);
  constexpr int tries = 50;
  for (int i = 0; i < tries; ++i) {
    const auto id = static_cast<uid_t>(any(device));
    if (::getpwuid(id) == nullptr && ::getgrgid(id) == nullptr && !is_subordinate(id) && !has_process(id)) {
      return id;
    }
  }
  throw Error("choose a user for unprivileged work", ErrorCode::host_unable,
              fmt::format("no free user id between {} and {}", range.first, range.last));
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::vector<std::string> names_in(const UniqueFd& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 3)));
  while (entries) {
    if (const auto* entry = ::readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") { names.push_back(name); }
    } else {
      break;
    }
  }
  return names;
}

void own(const UniqueFd& fd, mode_t mode) {
  if (::fchown(fd.get(), 0, 0) != 0 || ::fchmod(fd.get(), mode) != 0) {
    throw errno_error("take a folder of unprivileged work back", errno);
  }
}

void take_back_below(const UniqueFd& folder) {
  constexpr mode_t file_mode = 0644, folder_mode = 0755;
  own(folder, folder_mode);
  for (const auto& name : names_in(folder)) {
    // Without O_NONBLOCK a pipe would wait for its writer; with O_NOFOLLOW a link cannot be opened.
    const UniqueFd fd(::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    const bool seen = fd && ::fstat(fd.get(), &status) == 0;
    if (seen && S_ISDIR(status.st_mode)) {
      take_back_below(fd);
    } else if (seen && S_ISREG(status.st_mode) && status.st_nlink == 1) {
      own(fd, file_mode);
    } else {
      ::unlinkat(folder.get(), name.c_str(), 0);
    }
  }
}

}  // namespace

PrivateUser::PrivateUser() : id_(::geteuid() == 0 ? draw() : ::geteuid()) {}

PrivateUser::~PrivateUser() {
  try {
    end_processes();
  } catch (const Error& error) {
    log::warning("could not end unprivileged work", {{"reason", error.what()}});
  }
}

bool PrivateUser::is_other() const {
  return id_ != ::geteuid();
}

std::vector<std::string> PrivateUser::command(std::vector<std::string> argv) const {
  if (is_other()) {
    argv.insert(argv.begin(), {"setpriv", fmt::format("--reuid={}", id_), fmt::format("--regid={}", id_),
                               "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"});
  }
  return argv;
}

void PrivateUser::make_folder(const std::filesystem::path& folder) const {
  if (::mkdir(folder.c_str(), 0700) != 0 || (is_other() && ::lchown(folder.c_str(), id_, id_) != 0)) {
    throw errno_error("make folder " + folder.string(), errno);
  }
}

void PrivateUser::take_back(const std::filesystem::path& folder) const {
  if (!is_other()) { return; }
  end_processes();
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) { throw errno_error("take " + folder.string() + " back", errno); }
  take_back_below(fd);
}

void PrivateUser::end_processes() const {
  if (!is_other()) { return; }
  // kill(-1) of that user reaches all of its processes in one go, and none of anybody else's.
  const Identity self{id_, id_};
  const pid_t child = ::fork();
  if (child == 0) {
    if (self.assume()) { ::kill(-1, SIGKILL); }
    ::_exit(0);
  }
  if (child > 0) { ::waitpid(child, nullptr, 0); }
  constexpr int tries = 500;  // for the kernel to be done with them
  for (int i = 0; i < tries && has_process(id_); ++i) { ::usleep(10'000); }
  if (has_process(id_)) {
    throw Error("end the processes of unprivileged work", ErrorCode::io, "they do not end");
  }
}

}  // namespace virtrain::vmctl
