#include "vmctl/slice/loop_mount.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>

#include "common/files/unique_fd.h"

namespace virtrain::vmctl {
namespace {

/// A free loop device with the image in it; who else takes one at the same time makes it busy.
UniqueFd set_up_loop(int control, int image, const std::string& node, std::string& device) {
  constexpr int most_tries = 100;
  loop_config config{};
  config.fd = static_cast<__u32>(image);
  config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
  const auto mark = loop_mark + node;
  mark.copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
  for (int i = 0; i < most_tries; ++i) {
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) { return {}; }
    device = "/dev/loop" + std::to_string(number);
    UniqueFd loop(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
    if (!loop) { return {}; }
    if (::ioctl(loop.get(), LOOP_CONFIGURE, &config) == 0) { return loop; }
    if (errno != EBUSY) { return {}; }
  }
  return {};
}

}  // namespace

const char* mount_squashfs(int image, int folder, const std::string& node) {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) { return "open /dev/loop-control (load the kernel's module loop)"; }
  std::string device;
  const auto loop = set_up_loop(control.get(), image, node, device);
  if (!loop) { return "set up a loop device for the payload"; }
  const auto target = "/proc/self/fd/" + std::to_string(folder);
  if (::mount(device.c_str(), target.c_str(), "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0) {
    return "mount the payload (the kernel needs squashfs with its compression)";
  }
  return nullptr;
}

}  // namespace virtrain::vmctl
