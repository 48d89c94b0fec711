// virtrain-payload FOLDER COMMAND...: runs a command in the root file system of a payload, which is mounted
// read-only at FOLDER. The node's /dev, /proc, /sys and /tmp, the names of its neighbours and the libraries
// of its GPU driver are bound in. Static: it runs in every node. Who is not root does it in a user namespace.

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "common/files/plain_files.h"
#include "vmctl/guest/node_settings.h"

namespace {

using virtrain::plain_text;
using virtrain::write_plain_text;

constexpr int not_found_status = 127, not_started_status = 126;

[[noreturn]] void give_up(const std::string& what, int status = not_started_status) {
  std::fprintf(stderr, "virtrain-payload: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(status);
}

void need(bool worked, const std::string& what) {
  if (!worked) { give_up(what); }
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

void make_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0) {
    need(::unshare(CLONE_NEWNS) == 0, "make a mount namespace");
  } else {
    need(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0,
         "make a user namespace (the kernel must allow them to users: kernel.unprivileged_userns_clone, "
         "user.max_user_namespaces)");
    const auto same = [](unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
    need(write_plain_text("/proc/self/setgroups", "deny") &&
             write_plain_text("/proc/self/uid_map", same(user)) &&
             write_plain_text("/proc/self/gid_map", same(group)),
         "map the user into its namespace");
  }
  need(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
}

void bind_mount(const std::string& from, const std::string& to) {
  need(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
       "bind " + from + " to " + to);
}

void make_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  need(fd >= 0, "make " + path);
  ::close(fd);
}

std::vector<std::string> names_in_folder(int folder) {
  std::vector<std::string> names;
  DIR* const stream = ::fdopendir(::dup(folder));
  if (stream == nullptr) { give_up("list a folder"); }
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") { names.push_back(name); }
  }
  ::closedir(stream);
  return names;
}

/// Folders that the node's own are seen in.
bool is_of_node(const std::string& name) {
  return name == "dev" || name == "proc" || name == "sys" || name == "tmp";
}

/// Puts one of the payload's own names into the new root.
void add_entry(int payload, const std::string& name, const std::string& root) {
  const auto from = "/proc/self/fd/" + std::to_string(payload) + "/" + name;
  const auto to = root + "/" + name;
  struct stat status {};
  need(::fstatat(payload, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0, "look at /" + name);
  if (S_ISLNK(status.st_mode)) {
    char target[4096] = "";
    need(::readlinkat(payload, name.c_str(), target, sizeof target - 1) > 0 &&
             ::symlink(target, to.c_str()) == 0,
         "link /" + name);
  } else if (S_ISDIR(status.st_mode)) {
    need(::mkdir(to.c_str(), 0755) == 0, "make /" + name);
    bind_mount(from, to);
  } else if (S_ISREG(status.st_mode)) {
    make_file(to);
    bind_mount(from, to);
  }
}

/// Names of neighbours, where the payload has files of these names to lay them over. Copies: a slice's own
/// /etc/hosts has no name any more, and cannot be bound.
void add_names(const std::string& root) {
  for (const std::string name : {"hosts", "resolv.conf"}) {
    struct stat status {};
    const auto own = std::string("/etc/").append(name), to = root + own;
    const auto copy = std::string(root).append("/.virtrain-").append(name);
    if (::lstat(to.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) { continue; }
    need(write_plain_text(copy, plain_text(own)), "write " + copy);
    bind_mount(copy, to);
  }
}

std::vector<std::string> names_at(const char* folder) {
  std::vector<std::string> names;
  const int fd = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    names = names_in_folder(fd);
    ::close(fd);
  }
  return names;
}

/// Device nodes that libcuda would ask NVIDIA's tool for, which the payload lacks. A guest has no udev to
/// make them.
void make_device_nodes() {
  const auto gpus = names_at("/proc/driver/nvidia/gpus").size();
  const bool has_all = ::access("/dev/nvidiactl", F_OK) == 0 && ::access("/dev/nvidia-uvm", F_OK) == 0;
  if (::geteuid() != 0 || gpus == 0 || has_all) { return; }
  std::vector<std::string> words{"nvidia-modprobe", "-u"};
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) { words.insert(words.end(), {"-c", std::to_string(gpu)}); }
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) { arguments.push_back(word.data()); }
    arguments.push_back(nullptr);
    ::execv(virtrain::vmctl::nvidia_modprobe, arguments.data());
    ::_exit(not_found_status);
  }
  if (child > 0) { ::waitpid(child, nullptr, 0); }
}

/// The driver's libraries must be those of the kernel's module. Returns where they are in the new root;
/// empty: the node has no such GPU.
std::string add_driver(const std::string& root) {
  make_device_nodes();
  if (::access("/dev/nvidiactl", F_OK) != 0) { return {}; }
  std::string place = "/.virtrain-driver";
  need(::mkdir((root + place).c_str(), 0755) == 0, "make " + place);
  // The linker's own folders come first: where there are several series, their links say which is used.
  std::vector<std::string> folders(std::begin(virtrain::vmctl::driver_library_folders),
                                   std::end(virtrain::vmctl::driver_library_folders));
  for (const auto& series : names_at(virtrain::vmctl::driver_series_folder)) {
    folders.push_back(std::string(virtrain::vmctl::driver_series_folder).append("/").append(series));
  }
  for (const auto& folder : folders) {
    for (const auto& name : names_at(folder.c_str())) {
      const auto from = std::string(folder).append("/").append(name);
      const auto to = std::string(root).append(place).append("/").append(name);
      if (!virtrain::vmctl::is_of_gpu_driver(name) || ::access(from.c_str(), R_OK) != 0 ||
          ::access(to.c_str(), F_OK) == 0) {
        continue;
      }
      make_file(to);
      bind_mount(from, to);
    }
  }
  return place;
}

/// The first line of a file that `virtrain payload make` leaves: folders of programs.
std::string own_path(const std::string& root) {
  const auto text = plain_text(root + virtrain::vmctl::payload_path_file);
  return text.substr(0, text.find('\n'));
}

void set_environment(const std::string& root, const std::string& driver) {
  std::string path = virtrain::vmctl::node_path + std::strlen("PATH=");
  if (const auto own = own_path(root); !own.empty()) { path = own + ":" + path; }
  ::setenv("PATH", path.c_str(), 1);
  if (!driver.empty()) {
    const char* const before = ::getenv("LD_LIBRARY_PATH");
    ::setenv("LD_LIBRARY_PATH", before == nullptr ? driver.c_str() : (driver + ":" + before).c_str(), 1);
  }
  for (const char* name : {"HOME", "TMPDIR"}) {
    const char* const folder = ::getenv(name);
    if (folder == nullptr || !is_folder(root + folder)) { ::setenv(name, "/tmp", 1); }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: virtrain-payload FOLDER COMMAND...\n");
    return 2;
  }
  const std::string root = argv[1];
  make_namespaces();
  // Not before: one that is open from another namespace cannot be bound.
  const int payload = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  need(payload >= 0, "open the payload at " + root);
  need(::mount("tmpfs", root.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") == 0, "make a root");
  // First, for the root lies below the node's /tmp: what is bound later would be there twice.
  for (const char* folder : {"/tmp", "/dev", "/proc", "/sys"}) {
    need(::mkdir((root + folder).c_str(), 0755) == 0, std::string("make ") + folder);
    bind_mount(folder, root + folder);
  }
  for (const auto& name : names_in_folder(payload)) {
    if (!is_of_node(name)) { add_entry(payload, name, root); }
  }
  const auto driver = add_driver(root);
  add_names(root);
  set_environment(root, driver);
  need(::mount(nullptr, root.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
               nullptr) == 0,
       "make the root read-only");
  need(::chroot(root.c_str()) == 0 && ::chdir("/") == 0, "enter the payload");
  ::execvp(argv[2], argv + 2);
  give_up(std::string("start ") + argv[2] + " in the payload",
          errno == ENOENT ? not_found_status : not_started_status);
}
