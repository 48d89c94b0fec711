#include <filesystem>

#include "common/error.h"
#include "common/files/reading.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

const fs::path mdevs = "/sys/bus/mdev/devices";

fs::path type_folder(const std::string& parent, const std::string& type) {
  return fs::path("/sys/class/mdev_bus") / parent / "mdev_supported_types" / type;
}

struct MdevState {
  std::string parent, type;
};
BOOST_DESCRIBE_STRUCT(MdevState, (), (parent, type))

std::string parent_of(const Effect& effect) {
  return from_state<MdevState>(effect.state).parent;
}

void make(const Effect& effect) {
  const auto [parent, type] = from_state<MdevState>(effect.state);
  write_sysfs(type_folder(parent, type) / "create", effect.name);
  if (!is_there(mdevs / effect.name)) {
    throw Error("make the mediated device " + effect.name, ErrorCode::io,
                "the kernel took it and shows none");
  }
}

std::string left(const Effect& effect) {
  return is_there(mdevs / effect.name) ? "mediated device" : "";
}

void remove(const Effect& effect) {
  if (!is_there(mdevs / effect.name)) { return; }
  write_sysfs(mdevs / effect.name / "remove", "1");
  if (is_there(mdevs / effect.name)) {
    throw Error("remove the mediated device " + effect.name, ErrorCode::io, "it is still there");
  }
}

/// Without the journal nobody can tell who made one, so these are only shown.
void find_foreign(Search& search) {
  for (const auto& entry : entries_of(mdevs)) {
    const auto name = entry.filename().string();
    if (!search.is_journalled(name)) {
      search.add_foreign({EffectKind::mdev, name, "", "mediated device that is not virtrain's"});
    }
  }
}

/// Error(not_found) where the parent offers no such type, Error(busy) where none of it is left.
std::vector<Effect> plan(const DeviceGrant& grant) {
  if (grant.kind != GrantKind::mdev) { return {}; }
  const auto type = type_folder(grant.address, grant.vgpu_type);
  if (!is_there(type)) {
    throw Error("make a vGPU on " + grant.address, ErrorCode::not_found,
                "it offers no type " + grant.vgpu_type + " (virtrain doctor --devices lists them)");
  }
  if (is_there(mdevs / grant.uuid)) {  // undoing ours would remove it
    throw Error("make a vGPU on " + grant.address, ErrorCode::busy, "there is a vGPU " + grant.uuid);
  }
  if (read_value(type / "available_instances") == "0") {
    throw Error("make a vGPU on " + grant.address, ErrorCode::busy,
                "no instance of " + grant.vgpu_type + " is left");
  }
  return {{.kind = EffectKind::mdev,
           .name = grant.uuid,
           .state = to_state(MdevState{grant.address, grant.vgpu_type})}};
}

}  // namespace

const Handler mdev_handler{.kind = EffectKind::mdev,
                           .find = find_foreign,
                           .plan = plan,
                           .make = make,
                           .left = left,
                           .undo = remove,
                           .device = parent_of,
                           .for_each_vm = true};

}  // namespace virtrain::vmctl
