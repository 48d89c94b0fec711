#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/loop_mount.h"

namespace virtrain::vmctl {
namespace {

/// The slice in a loop device's mark; empty: it has none of ours.
std::string slice_of_loop(int device) {
  loop_info64 info{};
  if (::ioctl(device, LOOP_GET_STATUS64, &info) != 0) { return {}; }
  const std::string_view whole(reinterpret_cast<const char*>(info.lo_file_name), LO_NAME_SIZE);
  const auto name = whole.substr(0, whole.find('\0'));
  return name.starts_with(loop_mark) ? std::string(name.substr(std::string_view(loop_mark).size())) : "";
}

UniqueFd open_loop(const std::string& device) {
  return UniqueFd(::open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

/// Loop devices that carry our mark, by the slice that it names; those that may be opened here.
std::multimap<std::string, std::string> marked_loops() {
  std::multimap<std::string, std::string> found;
  for (const auto& entry : entry_names("/sys/block")) {
    if (!entry.starts_with("loop")) { continue; }
    const auto device = "/dev/" + entry;
    const auto loop = open_loop(device);
    const auto slice = loop ? slice_of_loop(loop.get()) : "";
    if (!slice.empty()) { found.emplace(slice, device); }
  }
  return found;
}

void find_loops(Search& search) {
  std::map<std::string, std::vector<std::string>> by_slice;
  for (const auto& [slice, device] : marked_loops()) { by_slice[slice].push_back(device); }
  for (const auto& [slice, devices] : by_slice) {
    search.add_unmarked(
        root_user, {EffectKind::loop, printable(slice), "", join(devices, " ") + ", marked as a payload"},
        search.used_slices.contains(slice) || search.is_live_name(slice));
  }
}

/// By its mark, for the number may be another's by now. The kernel detaches one that is mounted when the last
/// mount of it has gone.
void detach_loops(const Leftover& found, Hypervisor* /*unused*/) {
  const auto is_left = [&] { return marked_loops().contains(found.name); };
  for (const auto& [slice, device] : marked_loops()) {
    if (slice != found.name) { continue; }
    const auto loop = open_loop(device);
    if (loop && slice_of_loop(loop.get()) == slice) { ::ioctl(loop.get(), LOOP_CLR_FD, 0); }
  }
  constexpr int tries = 100;  // 2 s: a mount namespace may be going
  for (int i = 0; is_left(); ++i) {
    if (i == tries) {
      throw Error("detach the payload of " + found.name, ErrorCode::io,
                  "a process still has it mounted or open (" + found.detail + "; grep it in /proc/*/mounts)");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

const Handler loop_handler{.kind = EffectKind::loop, .find = find_loops, .remove = detach_loops};

}  // namespace virtrain::vmctl
