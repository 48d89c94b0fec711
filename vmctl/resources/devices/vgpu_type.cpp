#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

fs::path current_type(const std::string& address) {
  return pci_folder(address) / "nvidia/current_vgpu_type";
}

struct VgpuState {
  std::string type;
};
BOOST_DESCRIBE_STRUCT(VgpuState, (), (type))

std::string type_of(const Effect& effect) {
  return from_state<VgpuState>(effect.state).type;
}

void make(const Effect& effect) {
  const auto type = type_of(effect);
  write_sysfs(current_type(effect.name), type);
  const auto now = read_value(current_type(effect.name)).value_or("");
  if (now != type) {
    throw Error("make a vGPU on " + effect.name, ErrorCode::io,
                fmt::format("asked for type {}, it carries {}", type, now));
  }
}

std::string left(const Effect& effect) {
  const auto now = read_value(current_type(effect.name)).value_or("0");
  return now == type_of(effect) ? "vGPU of type " + now : "";
}

void clear(const Effect& effect) {
  if (left(effect).empty()) { return; }  // gone, or of another type and so somebody else's
  write_sysfs(current_type(effect.name), "0");
  const auto now = read_value(current_type(effect.name)).value_or("0");
  if (now != "0") {
    throw Error("remove the vGPU of " + effect.name, ErrorCode::io, "it still carries type " + now);
  }
}

/// That a virtual function that keeps its vendor's driver becomes a vGPU. Error(busy) where it carries one
/// already, Error(host_unable) where it does not offer the type.
std::vector<Effect> plan(const DeviceGrant& grant) {
  if (grant.kind != GrantKind::vendor_vfio) { return {}; }
  const auto operation = "make a vGPU on " + grant.address;
  const auto now = read_value(current_type(grant.address));
  if (!now) {
    throw Error(operation, ErrorCode::not_found,
                "it is not a virtual function of a driver with vendor-specific VFIO (doctor's VG-2)");
  }
  if (*now != "0") {
    throw Error(operation, ErrorCode::busy, "it carries a vGPU of type " + *now + " already");
  }
  std::vector<std::string> offered;
  const auto text = read_file(pci_folder(grant.address) / "nvidia/creatable_vgpu_types").value_or("");
  for (const auto& line : split(text, '\n')) {
    const auto id = std::string(trim(line.substr(0, line.find(':'))));
    if (parse_integer(id)) { offered.push_back(id); }
  }
  if (std::find(offered.begin(), offered.end(), grant.vgpu_type) == offered.end()) {
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("type {} cannot be made now ({})", grant.vgpu_type,
                            offered.empty() ? "the card is full" : "it can make: " + join(offered, ", ")));
  }
  return {
      {.kind = EffectKind::vgpu_type, .name = grant.address, .state = to_state(VgpuState{grant.vgpu_type})}};
}

}  // namespace

const Handler vgpu_type_handler{.kind = EffectKind::vgpu_type,
                                .plan = plan,
                                .make = make,
                                .left = left,
                                .undo = clear,
                                .device = named_device,
                                .for_each_vm = true};

}  // namespace virtrain::vmctl
