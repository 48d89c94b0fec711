#include "vmctl/hypervisor/libvirt/private_libvirt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/qemu_process.h"
#include "vmctl/process/child.h"
#include "vmctl/process/signs_of_life.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

void make_private_folder(const fs::path& folder) {
  constexpr mode_t only_ours = 0700;
  if (::mkdir(folder.c_str(), only_ours) != 0) {
    throw errno_error("make " + folder.string() + " for libvirt", errno);
  }
}

fs::path find_daemon() {
  for (const auto* program : {"/usr/sbin/libvirtd", "/usr/sbin/virtqemud"}) {
    if (fs::exists(program)) { return program; }
  }
  throw Error("start libvirt", ErrorCode::host_unable,
              "neither libvirtd nor virtqemud is installed: apt-get install libvirt-daemon-system");
}

std::vector<std::string> daemon_environment(const fs::path& folder, bool is_other_user) {
  std::vector<std::string> set{"XDG_RUNTIME_DIR=" + folder.string(),
                               "XDG_CONFIG_HOME=" + (folder / "config").string()};
  if (is_other_user) {  // a user's own cache remembers what QEMU can do
    set.push_back("HOME=" + folder.string());
    set.push_back("XDG_CACHE_HOME=" + (folder / "cache").string());
  }
  return is_other_user ? plain_environment_with(std::move(set)) : environment_with(std::move(set));
}

/// libvirt starts no VM as a user without an account.
const passwd& qemu_account() {
  for (const auto* name : qemu_accounts) {
    if (const passwd* account = ::getpwnam(name)) { return *account; }
  }
  throw Error(
      "start libvirt", ErrorCode::host_unable,
      "there is no account libvirt-qemu or qemu to run VMs as: apt-get install libvirt-daemon-system");
}

/// In the child of a process with threads, so with nothing but system calls.
[[noreturn]] void become_daemon(const char* program, char* const* environment, int log,
                                const std::optional<Identity>& other) {
  char* const arguments[] = {const_cast<char*>(program), nullptr};
  ::setsid();  // Ctrl-C is for the run, which needs its daemon to tear down
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY), 0);
  for (const int stream : {1, 2}) { ::dup2(log, stream); }
  if (!other || other->assume()) { ::execve(program, arguments, environment); }
  ::_exit(127);
}

void give_folder_to(const fs::path& folder, uid_t user) {
  constexpr auto same_group = static_cast<gid_t>(-1);
  std::vector<fs::path> all{folder};
  for (const auto& entry : fs::recursive_directory_iterator(folder)) { all.push_back(entry.path()); }
  // The folder last: until then nobody else gets to what is in it, and could put a link there.
  std::ranges::reverse(all);
  for (const auto& path : all) {
    if (::lchown(path.c_str(), user, same_group) != 0) {
      throw errno_error("give libvirt its folder", errno);
    }
  }
}

}  // namespace

/// Short, for libvirt's sockets below it must fit into the 107 bytes of a socket's address.
fs::path PrivateLibvirt::new_folder_name() {
  std::random_device device;
  return fmt::format("/tmp/vt-{:08x}", device());
}

PrivateLibvirt::PrivateLibvirt(fs::path folder, std::function<void()> folder_gone, const Cancelled& cancelled)
    : folder_(std::move(folder)), folder_gone_(std::move(folder_gone)) {
  fs::path program;
  try {
    program = find_daemon();
    make_private_folder(folder_);
  } catch (...) {
    folder_gone_();
    throw;
  }
  try {
    start(program);
    wait_until_it_answers(cancelled);
  } catch (...) {
    stop();
    throw;
  }
  log::info("started a libvirt daemon for this run", {{"pid", daemon_}});
}

PrivateLibvirt::~PrivateLibvirt() {
  stop();
}

void PrivateLibvirt::start(const fs::path& program) {
  const auto settings = folder_ / "config/libvirt";
  fs::create_directories(settings);
  // VMs' consoles go straight to their files: no virtlogd.
  write_file_atomically(settings / "qemu.conf", "stdio_handler = \"file\"\nsecurity_driver = \"none\"\n");
  const auto name = program.filename().string();
  uri_ = fmt::format("qemu+unix:///session?socket={}/libvirt/{}-sock", folder_.string(),
                     name == "libvirtd" ? "libvirt" : name);
  std::optional<Identity> other;
  if (::geteuid() == 0) { other = identity_of(qemu_account()); }
  if (other) { other_user_ = other->user; }
  if (other) { give_folder_to(folder_, other->user); }
  log_.reset(::memfd_create("libvirt", MFD_CLOEXEC));  // no path that its user could have made
  if (!log_) { throw errno_error("make a log for libvirt", errno); }
  auto environment = daemon_environment(folder_, other.has_value());
  const auto entries = pointers(environment);
  daemon_ = ::fork();
  if (daemon_ < 0) { throw errno_error("start " + program.string(), errno); }
  if (daemon_ == 0) { become_daemon(program.c_str(), entries.data(), log_.get(), other); }
}

void PrivateLibvirt::wait_until_it_answers(const Cancelled& cancelled) {
  SignsOfLife life([this] { return cpu_time_of_tree(daemon_); }, qemu_stands_still, first_look);
  std::string why;
  while (look_at_libvirt(uri_, &why) != DaemonState::answers) {
    int status = 0;
    if (::waitpid(daemon_, &status, WNOHANG) == daemon_) {
      daemon_ = 0;
      throw Error("start libvirt", ErrorCode::host_unable, "its daemon ended at once: " + last_words());
    }
    if (life.gave_up()) {
      throw Error("start libvirt", ErrorCode::host_unable,
                  "its daemon does not answer: " + why + "; " + last_words());
    }
    end_if(cancelled, "start libvirt");
    std::this_thread::sleep_for(50ms);
  }
}

std::string PrivateLibvirt::last_words() const {
  constexpr off_t most = 600;
  char tail[most];
  const off_t size = ::lseek(log_.get(), 0, SEEK_END);
  const auto got = ::pread(log_.get(), tail, most, std::max<off_t>(0, size - most));
  const auto words = trim(std::string_view(tail, got > 0 ? static_cast<std::size_t>(got) : 0));
  return words.empty() ? "it wrote nothing" : "it wrote: " + printable(words);
}

void PrivateLibvirt::stop() {
  if (daemon_ > 0) {
    ::kill(daemon_, SIGTERM);
    SignsOfLife life([this] { return cpu_time_of_tree(daemon_); }, 5s, 30s);
    while (::waitpid(daemon_, nullptr, WNOHANG) == 0) {
      if (life.gave_up()) { ::kill(daemon_, SIGKILL); }
      std::this_thread::sleep_for(10ms);
    }
    daemon_ = 0;
  }
  std::error_code failed;
  fs::remove_all(folder_, failed);
  if (!failed) { folder_gone_(); }
}

}  // namespace virtrain::vmctl
