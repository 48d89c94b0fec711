// First process of a mirror guest: loads the virtio drivers, puts a throw-away overlay on the read-only root,
// sets host name and network from the kernel command line and becomes the agent. Static, and no shell on the
// way: under emulation every program start costs tens of milliseconds.
//
//   vt.host=NAME  vt.ip=A.B.C.D/LEN  vt.hosts=NAME:A.B.C.D,...  vt.payload (mount that disk)
//   vt.mac=MAC (the NIC that is to be eth0)  vt.mtu=BYTES
//   vt.probe (say one line and power off)

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/files/plain_files.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace {

using virtrain::plain_text;
using virtrain::write_plain_text;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "virtrain-guest-init: %s: %s\n", what.c_str(), std::strerror(errno));
  ::sync();
  ::reboot(RB_POWER_OFF);
  std::abort();
}

void mount_or_give_up(const char* source, const char* target, const char* type, unsigned long flags,
                      const char* options = nullptr) {
  ::mkdir(target, 0755);
  if (::mount(source, target, type, flags, options) != 0) { give_up(std::string("mount ") + target); }
}

std::vector<std::string> words(const std::string& text, const char* separators) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(separators, begin)) != std::string::npos;) {
    const auto end = text.find_first_of(separators, begin);
    result.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end;
  }
  return result;
}

/// Value of "key=value" on the kernel command line, or "".
std::string option(const std::vector<std::string>& command_line, const std::string& key) {
  for (const auto& word : command_line) {
    if (word.rfind(key + "=", 0) == 0) { return word.substr(key.size() + 1); }
  }
  return {};
}

bool load_module(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) { return false; }
  constexpr int compressed = 4;  // MODULE_INIT_COMPRESSED_FILE
  const bool plain = path.size() > 3 && path.compare(path.size() - 3, 3, ".ko") == 0;
  const long result = ::syscall(SYS_finit_module, fd, "", plain ? 0 : compressed);
  ::close(fd);
  return result == 0 || errno == EEXIST;
}

/// The initrd lists drivers for any hypervisor's disk; a guest of ours has only virtio, and emulated loading
/// is slow.
bool needed_here(const std::string& module) {
  static const char* const other_names[] = {
      "libnvdimm", "nfit",     "scsi",        "libata",     "ata_",        "nd_",          "sd_mod",
      "fuse",      "virtiofs", "virtio_pmem", "virtio_mem", "virtio_scsi", "virtio_input", "virtio_balloon"};
  for (const char* other : other_names) {
    if (module.rfind(other, 0) == 0) { return false; }
  }
  return true;
}

void load_drivers() {
  for (const auto& module : words(plain_text("/modules"), "\n")) {
    if (needed_here(module)) {
      load_module("/" + module);  // absent hardware (ENODEV) is no failure
    }
  }
}

template <typename IsThere>
void wait_for(const std::string& device, IsThere is_there) {
  constexpr int tries = 3000;  // 30 s: an emulated guest on a busy host
  for (int i = 0; i < tries; ++i) {
    if (is_there()) { return; }
    ::usleep(10'000);
  }
  give_up("wait for " + device);
}

/// The initrd has it where the root's is compressed.
void load_overlay(const std::string& release) {
  if (load_module("/overlay.ko")) { return; }
  const std::string stem = "/ro/lib/modules/" + release + "/kernel/fs/overlayfs/overlay.ko";
  for (const char* suffix : {"", ".xz", ".zst", ".gz"}) {
    if (load_module(stem + suffix)) {
      return;  // none: it may be built in, and then the mount works
    }
  }
}

void enter_overlaid_root() {
  struct utsname name {};
  ::uname(&name);
  wait_for("/dev/vda", [] { return ::access("/dev/vda", F_OK) == 0; });
  mount_or_give_up("/dev/vda", "/ro", "ext4", MS_RDONLY | MS_NOATIME);
  load_overlay(name.release);
  mount_or_give_up("tmpfs", "/rw", "tmpfs", 0, "mode=0755");
  ::mkdir("/rw/u", 0755);
  ::mkdir("/rw/w", 0755);
  mount_or_give_up("overlay", "/new", "overlay", 0, "lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w");
  for (const char* moved : {"/dev", "/proc", "/sys"}) {
    if (::mount(moved, (std::string("/new") + moved).c_str(), nullptr, MS_MOVE, nullptr) != 0) {
      give_up(std::string("move ") + moved);
    }
  }
  if (::chdir("/new") != 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || ::chroot(".") != 0 ||
      ::chdir("/") != 0) {
    give_up("enter the root");
  }
}

void mount_volatile() {
  mount_or_give_up("devpts", "/dev/pts", "devpts", 0, "gid=5,mode=620,ptmxmode=666");
  mount_or_give_up("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  mount_or_give_up("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
  mount_or_give_up("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  ::symlink("/proc/self/fd", "/dev/fd");
  ::symlink("/proc/self/fd/0", "/dev/stdin");
  ::symlink("/proc/self/fd/1", "/dev/stdout");
  ::symlink("/proc/self/fd/2", "/dev/stderr");
}

sockaddr to_sockaddr(in_addr address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr = address;
  sockaddr generic{};
  std::memcpy(&generic, &internet, sizeof internet);
  return generic;
}

void bring_up(const char* device, const std::string& address_with_prefix) {
  const auto slash = address_with_prefix.find('/');
  const int prefix = slash == std::string::npos ? 32 : std::atoi(address_with_prefix.c_str() + slash + 1);
  in_addr address{}, mask{};
  if (::inet_aton(address_with_prefix.substr(0, slash).c_str(), &address) == 0 || prefix < 0 || prefix > 32) {
    errno = EINVAL;
    give_up("network address " + address_with_prefix);
  }
  mask.s_addr = prefix == 0 ? 0 : htonl(~std::uint32_t{0} << (32 - prefix));

  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  request.ifr_addr = to_sockaddr(address);
  if (::ioctl(socket, SIOCSIFADDR, &request) != 0) { give_up(std::string("set the address of ") + device); }
  request.ifr_netmask = to_sockaddr(mask);
  if (::ioctl(socket, SIOCSIFNETMASK, &request) != 0) {
    give_up(std::string("set the netmask of ") + device);
  }
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) { give_up(std::string("read the flags of ") + device); }
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  if (::ioctl(socket, SIOCSIFFLAGS, &request) != 0) { give_up(std::string("bring up ") + device); }
  ::close(socket);
}

/// With all that it depends on; a kernel that has it built in needs none.
void load_by_modprobe(const char* module) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/sbin/modprobe", "modprobe", "-q", module, static_cast<char*>(nullptr));
    ::_exit(1);
  }
  if (child > 0) { ::waitpid(child, nullptr, 0); }
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  DIR* const entries = ::opendir(folder);
  while (const dirent* entry = entries == nullptr ? nullptr : ::readdir(entries)) {
    if (entry->d_name[0] != '.') { names.emplace_back(entry->d_name); }
  }
  if (entries != nullptr) { ::closedir(entries); }
  return names;
}

/// The first word of a file in sysfs; "" where there is none.
std::string word_of(const std::string& path) {
  const auto found = words(plain_text(path.c_str()), "\n");
  return found.empty() ? "" : found[0];
}

/// Drivers of NICs that were passed to this guest: nothing else loads them here.
void load_nic_drivers() {
  const std::string functions = "/sys/bus/pci/devices/";
  for (const auto& function : names_in(functions.c_str())) {
    const std::string folder = functions + function;
    const bool is_nic = word_of(folder + "/class").rfind("0x0200", 0) == 0;
    if (is_nic && ::access((folder + "/driver").c_str(), F_OK) != 0) {
      load_by_modprobe(word_of(folder + "/modalias").c_str());
    }
  }
}

void change_device(const std::string& device, unsigned long what, ifreq request) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  if (::ioctl(socket, what, &request) != 0) { give_up("change the network device " + device); }
  ::close(socket);
}

void rename_device(const std::string& device, const std::string& name) {
  ifreq request{};
  std::strncpy(request.ifr_newname, name.c_str(), IFNAMSIZ - 1);
  change_device(device, SIOCSIFNAME, request);
}

/// Drivers of virtual functions go on with an address that they make up where the physical function, which
/// knows theirs, did not answer at once.
void bind_nics_again() {
  const std::string functions = "/sys/bus/pci/devices/";
  for (const auto& function : names_in(functions.c_str())) {
    const std::string driver = functions + function + "/driver";
    const bool is_nic = word_of(functions + function + "/class").rfind("0x0200", 0) == 0;
    const bool is_virtio = word_of(functions + function + "/vendor") == "0x1af4";
    if (!is_nic || is_virtio) { continue; }
    write_plain_text((driver + "/unbind").c_str(), function);
    write_plain_text("/sys/bus/pci/drivers_probe", function);
  }
}

/// Makes the NIC with that address eth0; another one that has the name gets another.
void make_eth0(const std::string& mac) {
  load_nic_drivers();
  const std::string devices = "/sys/class/net/";
  constexpr int tries_of_a_binding = 300;  // 3 s
  std::string found;
  int tries = 0;
  wait_for("a NIC with the address " + mac, [&] {
    for (const auto& device : names_in(devices.c_str())) {
      if (word_of(devices + device + "/address") == mac) { found = device; }
    }
    if (found.empty() && ++tries % tries_of_a_binding == 0) { bind_nics_again(); }
    return !found.empty();
  });
  if (found == "eth0") { return; }
  if (::access((devices + "eth0").c_str(), F_OK) == 0) { rename_device("eth0", "other0"); }
  rename_device(found, "eth0");
}

void configure(const std::vector<std::string>& command_line) {
  const std::string host = option(command_line, "vt.host");
  if (!host.empty()) { ::sethostname(host.data(), host.size()); }
  std::string hosts = "127.0.0.1 localhost\n";
  for (const auto& entry : words(option(command_line, "vt.hosts"), ",")) {
    const auto colon = entry.find(':');
    if (colon != std::string::npos) {
      hosts += entry.substr(colon + 1) + " " + entry.substr(0, colon) + "\n";
    }
  }
  write_plain_text("/etc/hosts", hosts);
  write_plain_text("/etc/hostname", host + "\n");
  write_plain_text("/proc/sys/net/ipv4/tcp_retries2", virtrain::vmctl::tcp_retries2);
  bring_up("lo", "127.0.0.1/8");
  const std::string mac = option(command_line, "vt.mac"), mtu = option(command_line, "vt.mtu");
  if (!mac.empty()) { make_eth0(mac); }
  if (!mtu.empty()) {
    ifreq request{};
    request.ifr_mtu = std::atoi(mtu.c_str());
    change_device("eth0", SIOCSIFMTU, request);
  }
  const std::string address = option(command_line, "vt.ip");
  if (!address.empty()) { bring_up("eth0", address); }
}

/// The disk with this serial number: "/dev/vdb"; empty: there is none.
std::string disk_of_serial(const char* serial) {
  std::string found;
  DIR* const disks = ::opendir("/sys/block");
  while (const dirent* entry = disks == nullptr ? nullptr : ::readdir(disks)) {
    const std::string name = entry->d_name;
    const auto said = words(plain_text("/sys/block/" + name + "/serial"), "\n");
    if (said.size() == 1 && said[0] == serial) { found = "/dev/" + name; }
  }
  if (disks != nullptr) { ::closedir(disks); }
  return found;
}

/// Where a slice has it, so that a job's command line is the same.
void mount_payload() {
  std::string disk;
  wait_for("the disk of the payload", [&] {
    disk = disk_of_serial(virtrain::vmctl::payload_serial);
    return !disk.empty() && ::access(disk.c_str(), F_OK) == 0;
  });
  load_by_modprobe("squashfs");
  const auto folder = std::string(virtrain::vmctl::node_temporary_folder) + virtrain::vmctl::payload_folder;
  mount_or_give_up(disk.c_str(), folder.c_str(), "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV);
}

}  // namespace

int main() {
  ::umask(022);
  mount_or_give_up("proc", "/proc", "proc", 0);
  mount_or_give_up("sysfs", "/sys", "sysfs", 0);
  mount_or_give_up("devtmpfs", "/dev", "devtmpfs", 0);
  const int console = ::open("/dev/console", O_RDWR);
  for (int fd = 0; console >= 0 && fd < 3; ++fd) { ::dup2(console, fd); }
  if (console > 2) { ::close(console); }

  const auto command_line = words(plain_text("/proc/cmdline"), " \n");
  for (const auto& word : command_line) {
    if (word != "vt.probe") { continue; }
    std::fprintf(stdout, "%s\n", virtrain::vmctl::probe_line);
    std::fflush(stdout);
    ::reboot(RB_POWER_OFF);
  }
  load_drivers();
  enter_overlaid_root();
  mount_volatile();
  configure(command_line);

  ::setenv("HOME", "/root", 1);
  ::putenv(const_cast<char*>(virtrain::vmctl::node_path));
  ::setenv("LANG", "C.UTF-8", 1);
  if (::mkdir(virtrain::vmctl::node_temporary_folder, 0700) != 0) { give_up("make a folder in /tmp"); }
  ::setenv("TMPDIR", virtrain::vmctl::node_temporary_folder, 1);
  for (const auto& word : command_line) {
    if (word == "vt.payload") { mount_payload(); }
  }
  ::execl(virtrain::vmctl::guest_agent, "virtrain-agent", "--channel", virtrain::vmctl::agent_channel,
          static_cast<char*>(nullptr));
  give_up(std::string("start ") + virtrain::vmctl::guest_agent);
}
