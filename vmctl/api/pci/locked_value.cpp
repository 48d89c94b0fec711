#include "vmctl/api/pci/locked_value.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = 4096;  ///< a page, as sysfs has it
constexpr int answer_fd = 3;              ///< the only descriptor that the process keeps

/// Only calls that are safe between fork and exec: this process has threads.
[[noreturn]] void read_and_exit(const char* file, int answer) {
  ::setpgid(0, 0);
  ::dup2(answer, answer_fd);
  ::syscall(SYS_close_range, 0U, answer_fd - 1U, 0U);
  ::syscall(SYS_close_range, answer_fd + 1U, ~0U, 0U);
  std::array<char, most_bytes> text;  // NOLINT: filled by read
  const int descriptor = ::open(file, O_RDONLY | O_CLOEXEC);
  const auto bytes = descriptor < 0 ? -1 : ::read(descriptor, text.data(), text.size());
  ::_exit(bytes >= 0 && ::write(answer_fd, text.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1);
}

/// Whether the file is part of a recorded tree, where no other user can delay the read.
bool is_plain(const fs::path& file) {
  struct statfs status {};
  const bool in_sysfs = ::statfs(file.c_str(), &status) == 0 && status.f_type == SYSFS_MAGIC;
  std::error_code ignored;
  return !in_sysfs && fs::is_regular_file(file, ignored);
}

}  // namespace

std::optional<std::string> read_locked_value(const fs::path& file, std::chrono::milliseconds deadline) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) { return std::nullopt; }
  if (is_plain(file)) { return read_value(file); }
  const auto operation = "read " + file.string();
  auto [from, to] = make_pipe();
  const char* const path = file.c_str();
  const pid_t process = ::fork();
  if (process < 0) { throw errno_error(operation, errno); }
  if (process == 0) { read_and_exit(path, to.get()); }
  to = UniqueFd();
  if (!becomes_readable(from.get(), deadline)) {
    ::kill(process, SIGKILL);
    throw Error(operation, ErrorCode::timeout,
                fmt::format("the kernel has not answered within {} s: a driver holds the device's lock, "
                            "perhaps because it does not let go of it (dmesg)",
                            deadline.count() / 1000));
  }
  std::string text(most_bytes, '\0');
  const auto bytes = ::read(from.get(), text.data(), text.size());
  int status = 0;
  ::waitpid(process, &status, 0);
  if (bytes < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) { return std::nullopt; }
  text.resize(static_cast<std::size_t>(bytes));
  return std::string(trim(text));
}

}  // namespace virtrain::vmctl
