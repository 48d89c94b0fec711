#include "vmctl/resources/devices/kvm_device.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

constexpr mode_t kvm_mode = 0660;

/// Who may open the device.
struct Access {
  gid_t group = 0;
  mode_t mode = 0;
  bool operator==(const Access&) const = default;
};
BOOST_DESCRIBE_STRUCT(Access, (), (group, mode))

std::optional<Access> access_now(const std::string& device) {
  struct stat status {};
  if (::stat(device.c_str(), &status) != 0) { return std::nullopt; }
  return Access{status.st_gid, status.st_mode & 07777};
}

void set_access(const std::string& device, const Access& access) {
  // The mode first where it becomes narrower: nobody gets more than either allows in between.
  const auto group = [&] { return ::chown(device.c_str(), static_cast<uid_t>(-1), access.group) == 0; };
  const auto mode = [&] {
    return ::chmod(device.c_str(), access.mode & access_now(device).value_or(access).mode) == 0;
  };
  if (!mode() || !group() || ::chmod(device.c_str(), access.mode) != 0) {
    throw errno_error(fmt::format("give {} group {} and mode {:04o}", device, access.group, access.mode),
                      errno);
  }
}

void open(const Effect& effect) {
  set_access(effect.name, from_state<Change<Access>>(effect.state).wanted);
}

/// Empty too where nobody would notice: after somebody else has changed it again.
std::string left(const Effect& effect) {
  const auto [before, wanted] = from_state<Change<Access>>(effect.state);
  if (access_now(effect.name) != wanted) { return {}; }
  return fmt::format("group {}, mode {:04o} (before: group {}, mode {:04o})", wanted.group, wanted.mode,
                     before.group, before.mode);
}

void close(const Effect& effect) {
  if (!left(effect).empty()) { set_access(effect.name, from_state<Change<Access>>(effect.state).before); }
}

}  // namespace

bool lets_qemu_open(mode_t mode, bool of_group_kvm) {
  constexpr mode_t of_others = 0006;  // QEMU's user is among them
  return (of_group_kvm && (mode & kvm_mode) == kvm_mode) || (mode & of_others) == of_others;
}

std::optional<Effect> kvm_device_effect(const std::string& device) {
  const auto now = access_now(device);
  const group* kvm = ::getgrnam("kvm");
  if (::geteuid() != 0 || !now || kvm == nullptr) { return std::nullopt; }
  if (lets_qemu_open(now->mode, now->group == kvm->gr_gid)) { return std::nullopt; }
  const Change<Access> change{*now, {kvm->gr_gid, now->mode | kvm_mode}};
  return Effect{.kind = EffectKind::kvm_device, .name = device, .state = to_state(change)};
}

const Handler kvm_device_handler{
    .kind = EffectKind::kvm_device, .make = open, .left = left, .undo = close, .is_shared = true};

}  // namespace virtrain::vmctl
