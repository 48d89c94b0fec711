#include "vmctl/devices/pci/sysfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Only calls that are safe between fork and exec: this process has threads. Keeps no descriptor of ours, or
/// a write that never ends would hold our locks and channels; and is of no group that a Ctrl-C reaches.
[[noreturn]] void write_and_exit(const char* file, const char* text, std::size_t bytes) {
  ::setpgid(0, 0);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  const int descriptor = ::open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);  // as a shell's ">"
  if (descriptor < 0) { ::_exit(errno); }
  ::_exit(::write(descriptor, text, bytes) < 0 ? errno : 0);
}

bool ends_by(pid_t process, std::chrono::milliseconds deadline) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U)));
  if (!handle) { throw errno_error("watch process " + std::to_string(process), errno); }
  return becomes_readable(handle.get(), deadline);
}

}  // namespace

void write_sysfs(const fs::path& file, const std::string& text, std::chrono::milliseconds deadline) {
  const auto operation = fmt::format("write {} to {}", trim(text), file.string());
  const char* const path = file.c_str();
  const pid_t process = ::fork();
  if (process < 0) { throw errno_error(operation, errno); }
  if (process == 0) { write_and_exit(path, text.data(), text.size()); }
  if (!ends_by(process, deadline)) {
    ::kill(process, SIGKILL);
    throw Error(operation, ErrorCode::timeout,
                fmt::format("the kernel has not answered within {} s; process {} still waits for it",
                            deadline.count() / 1000, process));
  }
  int status = 0;
  if (::waitpid(process, &status, 0) < 0) { throw errno_error(operation, errno); }
  if (WIFSIGNALED(status)) {
    throw Error(operation, ErrorCode::io, fmt::format("killed by signal {}", WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) { throw errno_error(operation, WEXITSTATUS(status)); }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path pci_folder(const std::string& address) {
  return fs::path("/sys/bus/pci/devices") / address;
}

std::string bound_driver(const std::string& address) {
  return link_name(pci_folder(address) / "driver");
}

}  // namespace virtrain::vmctl
