#include "harness/plan/devices/device_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "common/contains.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/limits.h"

namespace virtrain::harness {
namespace {

using vmctl::GrantKind;
using vmctl::HostDevice;
using vmctl::Inventory;
using vmctl::Mechanism;
using Candidates = std::vector<const HostDevice*>;

constexpr int most_slots_of_parent = 64;

std::string card_of(const HostDevice& device) {
  const auto& pci = device.function;
  return pci.physical_function.empty() ? pci.address : pci.physical_function;
}

std::string named(const HostDevice& device) {
  return fmt::format("{} ({})", device.function.address, device.name);
}

/// By name and vendor, and by address and uuid: its own or its physical function's.
bool is_selected(const DeviceSelection& select, const HostDevice& device, const Inventory& inventory) {
  const auto& pci = device.function;
  const auto* card = pci.physical_function.empty() ? nullptr : find_device(inventory, pci.physical_function);
  return (!select.vendor || *select.vendor == pci.vendor) &&
         (select.addresses.empty() || contains(select.addresses, pci.address) ||
          contains(select.addresses, pci.physical_function)) &&
         (select.uuids.empty() || contains(select.uuids, device.uuid) ||
          (card != nullptr && contains(select.uuids, card->uuid))) &&
         (select.name.empty() || device.name.find(select.name) != std::string::npos);
}

/// Accelerators of other vendors, and dead ones, that a selection by vendor or name means.
void say_what_is_no_gpu_of_ours(const DeviceSelection& select, const Inventory& inventory, Offer& offer) {
  if (!select.addresses.empty() || (!select.vendor && select.name.empty())) { return; }
  bool any = false;
  for (const auto& device : inventory.other_devices) {
    const auto& pci = device.function;
    if (!pci.is_accelerator() && !pci.is_dead()) { continue; }
    if (pci.is_dead()) {
      offer.reasons.push_back(
          named(device) +
          ": it answers with ones only, lost after a reset or from the bus (switch the host "
          "off and on)");
    } else if (is_selected(select, device, inventory)) {
      any = true;
      offer.reasons.push_back(fmt::format("{}: virtrain trains on NVIDIA's GPUs only ({})", named(device),
                                          vmctl::assignment_in_words(pci)));
    }
  }
  if (any) { offer.reasons.emplace_back(vmctl::works_with_other_gpus); }
}

/// Devices of the class, and of every other one that is named by address.
Candidates candidates(const DeviceSelection& select, vmctl::DeviceClass device_class,
                      const Inventory& inventory, Offer& offer) {
  Candidates found;
  for (const auto* list : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *list) {
      if ((device.device_class == device_class || !select.addresses.empty()) &&
          is_selected(select, device, inventory)) {
        found.push_back(&device);
      }
    }
  }
  if (device_class == vmctl::DeviceClass::gpu) { say_what_is_no_gpu_of_ours(select, inventory, offer); }
  for (const auto& address : select.addresses) {
    if (find_device(inventory, address) == nullptr) {
      offer.reasons.push_back(fmt::format("{}: this host has no such device", address));
    }
  }
  return found;
}

/// Members of its IOMMU group that are neither bridges, which are in no list, nor functions of its own card.
Candidates others_in_group(const HostDevice& device, const Inventory& inventory) {
  Candidates others;
  for (const auto& member : device.function.iommu_group_members) {
    const auto* other = find_device(inventory, member);
    if (other != nullptr && vmctl::slot_of(member) != vmctl::slot_of(device.function.address)) {
      others.push_back(other);
    }
  }
  return others;
}

/// Why a whole function cannot be had; bare metal needs no IOMMU for it. `selected` may go with it.
std::optional<std::string> not_as_a_whole(const HostDevice& device, const Inventory& inventory, bool for_vms,
                                          const Candidates& selected) {
  switch (device.mechanism) {
    case Mechanism::passthrough:
    case Mechanism::undecided:
      break;
    case Mechanism::mdev:
    case Mechanism::vendor_vfio:
      return "its driver makes vGPUs of it: " + device.mechanism_reason + " (use kind vgpu)";
    case Mechanism::none:
      if (for_vms || device.function.iommu_group) { return device.mechanism_reason; }
  }
  if (!for_vms) { return std::nullopt; }
  std::vector<std::string> strangers;
  for (const auto* other : others_in_group(device, inventory)) {
    if (!contains(selected, other)) { strangers.push_back(named(*other)); }
  }
  if (!strangers.empty()) {
    return fmt::format(
        "it shares IOMMU group {} with {}, and a group goes to one VM as a whole (let devices.select allow "
        "all of it; another slot, or a board with ACS, parts them)",
        device.function.iommu_group.value_or(-1), join(strangers, ", "));
  }
  return std::nullopt;
}

DeviceSlot whole(const HostDevice& device, GrantKind kind) {
  DeviceSlot slot;
  slot.device = vmctl::placed({kind, device.function.address, device.function.physical_function}, device);
  slot.id = device.function.address;
  slot.card = card_of(device);
  slot.iommu_group = device.function.iommu_group;
  slot.is_ready =
      device.ports.empty() || std::any_of(device.ports.begin(), device.ports.end(),
                                          [](const auto& port) { return port.state == "ACTIVE"; });
  return slot;
}

void offer_whole(const HostDevice& device, const Inventory& inventory, Offer& offer, bool for_vms,
                 const Candidates& selected) {
  if (const auto why = not_as_a_whole(device, inventory, for_vms, selected)) {
    offer.reasons.push_back(named(device) + ": " + *why);
  } else if (!device.users.empty()) {
    offer.reasons.push_back(named(device) + ": in use: " + vmctl::in_words(device.users[0]));
    ++offer.in_use;
  } else {
    offer.slots.push_back(whole(device, device.function.physical_function.empty()
                                            ? GrantKind::passthrough
                                            : GrantKind::virtual_function));
    if (!for_vms) { return; }
    for (const auto* other : others_in_group(device, inventory)) {
      offer.slots.back().companions.push_back(other->function.address);
    }
  }
}

/// Those that are there, for their number cannot change while any is; where none is, those that can be made.
void offer_virtual_functions(const HostDevice& physical, const Inventory& inventory, Offer& offer,
                             bool for_vms) {
  const auto& pci = physical.function;
  if (pci.virtual_functions_possible == 0) {
    offer.reasons.push_back(
        named(physical) + ": it has no virtual functions (SR-IOV is off in its firmware, or unknown to it)");
    return;
  }
  const int count = pci.virtual_functions.empty() ? pci.virtual_functions_possible
                                                  : static_cast<int>(pci.virtual_functions.size());
  for (int i = 0; i < count; ++i) {
    const auto address = vmctl::virtual_function_address(pci, i);
    if (!address) {
      offer.reasons.push_back(named(physical) + ": it does not say where its virtual functions will be");
      return;
    }
    const auto* existing = find_device(inventory, *address);
    if (existing != nullptr) {
      offer_whole(*existing, inventory, offer, for_vms, {existing});
      continue;
    }
    DeviceSlot slot = whole(physical, GrantKind::virtual_function);
    slot.device = vmctl::placed({GrantKind::virtual_function, *address, pci.address}, physical);
    slot.id = *address;
    slot.iommu_group.reset();
    offer.slots.push_back(std::move(slot));
  }
}

/// "NVIDIA A100-20C" is meant by "A100-20C", by itself, and by its id.
bool is_type(const vmctl::VgpuType& type, const std::string& wanted) {
  return type.id == wanted || type.name == wanted || type.name.ends_with(" " + wanted);
}

/// "24" of "NVIDIA L40S-24C": GiB of the card's memory; 0 where the name says nothing.
int gibibytes(const std::string& type_name) {
  const auto dash = type_name.rfind('-');
  if (dash == std::string::npos) { return 0; }
  Scanner size(std::string_view(type_name).substr(dash + 1));
  const auto digits = size.take_while(is_digit, 1, 4);
  const bool has_series = !size.take_while(is_upper).empty() && size.at_end();
  return has_series ? static_cast<int>(parse_integer(digits).value_or(0)) : 0;
}

/// Functions and slots that kind vgpu finds on one card.
struct VgpuCard {
  std::vector<std::pair<const HostDevice*, const vmctl::VgpuType*>> functions;  ///< that offer the type
  std::vector<std::string> reasons;
  std::set<std::string> offered;  ///< names of other types
  int largest = 0;                ///< GiB of the largest type on offer
  std::size_t existing = 0;       ///< vGPUs that are there
  bool is_empty = true;           ///< every function still offers something
};

void look_for_type(const HostDevice& device, const std::string& wanted, VgpuCard& card) {
  if (device.mechanism == Mechanism::undecided) {
    card.reasons.push_back(
        fmt::format("{}: SR-IOV is off (switch its virtual functions on: sriov-manage -e {})", named(device),
                    device.function.address));
    return;
  }
  if (device.mechanism != Mechanism::mdev && device.mechanism != Mechanism::vendor_vfio) {
    if (device.function.virtual_functions.empty()) {
      card.reasons.push_back(fmt::format("{}: its driver ({}) offers no vGPUs", named(device),
                                         device.function.driver.empty() ? "none" : device.function.driver));
    }
    return;
  }
  if (device.vgpu_types.empty()) { card.is_empty = false; }
  card.existing += device.vgpus.size();
  for (const auto& type : device.vgpu_types) {
    card.largest = std::max(card.largest, gibibytes(type.name));
    if (!is_type(type, wanted)) {
      card.offered.insert(type.name);
    } else if (type.available_instances == 0) {
      card.reasons.push_back(fmt::format("{}: no instance of {} is left", named(device), type.name));
    } else {
      card.functions.emplace_back(&device, &type);
    }
  }
}

/// Compute slices that MIG cuts a card into: seven, but four of an A30's (MIG User Guide, supported
/// profiles). 0 of a Blackwell workstation card, where vGPUs share a slice's time.
int slices_of_card(const std::string& vgpu_type_name) {
  const auto has = [&](const char* part) { return vgpu_type_name.find(part) != std::string::npos; };
  return has("Blackwell") ? 0 : has("A30-") ? 4 : 7;
}

/// GiB, as vGPU types count them, of cards that MIG cuts (NVIDIA vGPU User Guide: the whole card's type); 0:
/// not known. What is on offer does not say it: MIG-backed types are those of the instances that were made.
int memory_of_card(const std::string& vgpu_type_name) {
  constexpr std::pair<std::string_view, int> cards[] = {
      {"A30-", 24},   {"A100-", 40}, {"A100D-", 80},  {"A100X-", 80},  {"A800-", 40},
      {"A800D-", 80}, {"H100-", 80}, {"H100L-", 94},  {"H100XM-", 80}, {"H100XL-", 94},
      {"H800-", 80},  {"H20-", 96},  {"H200X-", 141}, {"H200-", 141}};
  const auto name = std::string_view(vgpu_type_name).substr(vgpu_type_name.rfind(' ') + 1);
  for (const auto& [prefix, memory] : cards) {
    if (name.starts_with(prefix)) { return memory; }
  }
  return 0;
}

/// Each function of an SR-IOV card offers a type as long as there is room for one more, so that their number
/// says nothing. The driver may say how many a card holds; else, of MIG-backed ones, its slices do, and on an
/// empty card the largest type says how much memory there is.
std::size_t most_on_card(const VgpuCard& card, const vmctl::VgpuType& type) {
  auto most = std::numeric_limits<std::size_t>::max();
  if (type.most_instances) { most = static_cast<std::size_t>(*type.most_instances); }
  const int size = gibibytes(type.name);
  if (const int slices = mig_slices_of(type.name); slices > 0) {
    if (const int all = slices_of_card(type.name); all > 0) {
      most = std::min(most, static_cast<std::size_t>(all / slices));
    }
    if (type.name.ends_with("ME")) { most = 1; }  // with the card's media engines (MIG User Guide)
    most -= std::min(most, card.existing);        // each takes one slice at least
    const int memory = memory_of_card(type.name);
    return size > 0 && memory > 0 ? std::min(most, static_cast<std::size_t>(memory / size)) : most;
  }
  if (!card.is_empty || size == 0 || card.largest == 0) { return most; }
  return std::min(most, static_cast<std::size_t>(card.largest / size));
}

void offer_vgpus(const VgpuCard& card, Offer& offer) {
  std::size_t on_card = 0;
  for (const auto& [device, type] : card.functions) {
    const bool is_mdev = device->mechanism == Mechanism::mdev;
    const bool is_function = !device->function.physical_function.empty();
    const int instances = is_mdev ? std::min(type->available_instances.value_or(1), most_slots_of_parent) : 1;
    for (int i = 0; i < instances; ++i) {
      if (is_function && on_card == most_on_card(card, *type)) { return; }
      DeviceSlot slot;
      slot.device = vmctl::placed({is_mdev ? GrantKind::mdev : GrantKind::vendor_vfio,
                                   device->function.address, device->function.physical_function, type->id},
                                  *device);
      slot.device.vgpu_name = type->name;
      slot.mig_slices = mig_slices_of(type->name);
      slot.card_slices = slices_of_card(type->name);
      if (slot.mig_slices > 0) {
        slot.mig_gib = gibibytes(type->name);
        slot.card_gib = memory_of_card(type->name);
      }
      slot.id = fmt::format("{}#{}", device->function.address, i);
      slot.card = card_of(*device);
      offer.slots.push_back(std::move(slot));
      ++on_card;
    }
  }
}

void offer_type(const Candidates& devices, const std::string& wanted, Offer& offer) {
  std::map<std::string, VgpuCard> cards;
  for (const auto* device : devices) { look_for_type(*device, wanted, cards[card_of(*device)]); }
  for (const auto& [address, card] : cards) {
    offer_vgpus(card, offer);
    offer.reasons.insert(offer.reasons.end(), card.reasons.begin(), card.reasons.end());
    if (!card.functions.empty() || !card.reasons.empty()) { continue; }
    const std::vector<std::string> names(card.offered.begin(), card.offered.end());
    offer.reasons.push_back(names.empty() ? fmt::format("{}: it is full, no type is on offer", address)
                                          : fmt::format("{}: no vGPU type {} (offered now: {})", address,
                                                        wanted, join(names, ", ")));
  }
}

/// Leaves out what a run or a quarantine withholds, and all cards beyond `select.count`.
void limit(Offer& offer, const DeviceSelection& select, const Inventory& inventory) {
  std::set<std::string> said;
  std::erase_if(offer.slots, [&](const DeviceSlot& slot) {
    for (const auto& address : {slot.device.grant.address, slot.card}) {
      const auto withheld = inventory.withheld_devices.find(address);
      if (withheld == inventory.withheld_devices.end()) { continue; }
      if (said.insert(address).second) { offer.reasons.push_back(address + ": " + withheld->second); }
      return true;
    }
    return false;
  });
  if (!select.count) { return; }
  // All parts of a card that counts may be had.
  std::set<std::string> cards;
  std::erase_if(offer.slots, [&](const DeviceSlot& slot) {
    if (cards.contains(slot.card)) { return false; }
    if (static_cast<std::int64_t>(cards.size()) == *select.count) { return true; }
    cards.insert(slot.card);
    return false;
  });
}

/// Why the NIC has no virtual functions to give; empty: it has.
std::string lacks_functions(const std::string& nic, const HostDevice* physical) {
  if (physical == nullptr) {
    return nic + " is not an interface of a PCI NIC (ip -br link lists its interfaces)";
  }
  const auto& pci = physical->function;
  const bool is_ethernet =
      pci.class_code.starts_with("0x0200") &&
      std::ranges::all_of(physical->ports, [](const auto& port) { return port.link_layer == "Ethernet"; });
  if (!is_ethernet) { return nic + " is not an Ethernet NIC (use devices.nics for RDMA adapters)"; }
  return vmctl::why_no_functions(nic, pci);
}

}  // namespace

int mig_slices_of(const std::string& vgpu_type_name) {
  for (auto dash = vgpu_type_name.find('-'); dash != std::string::npos;
       dash = vgpu_type_name.find('-', dash + 1)) {
    Scanner name(std::string_view(vgpu_type_name).substr(dash + 1));
    const auto slices = name.take_while(is_digit, 1, 2);
    if (!slices.empty() && name.take("-") && !name.take_while(is_digit).empty() &&
        !name.take_while(is_upper).empty()) {
      return static_cast<int>(parse_integer(slices).value_or(0));
    }
  }
  return 0;
}

bool DeviceSlot::is_time_sliced() const {
  return !device.vgpu_name.empty() && !is_mig_backed(device.vgpu_name);
}

Offer offered_devices(const Devices& devices, const std::string& vgpu_type, const Inventory& inventory,
                      bool for_vms) {
  Offer offer;
  if (devices.kind == DeviceKind::none) { return offer; }
  const auto found = candidates(devices.select, vmctl::DeviceClass::gpu, inventory, offer);
  switch (devices.kind) {
    case DeviceKind::passthrough:
      for (const auto* device : found) { offer_whole(*device, inventory, offer, for_vms, found); }
      break;
    case DeviceKind::vf:
      for (const auto* device : found) {
        if (device->function.physical_function.empty()) {
          offer_virtual_functions(*device, inventory, offer, for_vms);
        }
      }
      break;
    case DeviceKind::vgpu:
      offer_type(found, vgpu_type, offer);
      break;
    case DeviceKind::none:
      break;
  }
  limit(offer, devices.select, inventory);
  for (auto& slot : offer.slots) {
    slot.device.grant.between_tenants = devices.between_tenants;
    slot.device.vfio = devices.vfio;
  }
  return offer;
}

Offer offered_network_functions(const std::string& nic, const Inventory& inventory, bool for_vms,
                                bool for_slices) {
  Offer offer;
  const auto* physical = find_nic(inventory, nic);
  if (auto why = lacks_functions(nic, physical); !why.empty()) {
    offer.reasons.push_back(std::move(why));
    return offer;
  }
  for (const auto& address : physical->function.virtual_functions) {
    const auto* device = find_device(inventory, address);
    if (device == nullptr) { continue; }
    if (for_slices && device->interfaces.empty() && !vmctl::is_in_another_namespace(*device)) {
      const auto& driver = device->function.driver;
      offer.reasons.push_back(fmt::format("{}: {} has it, and arm bare_metal needs its network interface",
                                          named(*device), driver.empty() ? "no driver" : driver));
      continue;
    }
    auto one = *device;
    if (vmctl::is_in_another_namespace(one)) {
      one.users.push_back({0, "in another network namespace", "its interface"});
    }
    offer_whole(one, inventory, offer, for_vms, {device});
  }
  limit(offer, {}, inventory);
  return offer;
}

Offer offered_nics(const Devices& devices, const Inventory& inventory, bool for_vms) {
  Offer offer;
  if (!devices.nics) { return offer; }
  const auto& nics = *devices.nics;
  for (const auto* device : candidates(nics.select, vmctl::DeviceClass::rdma_nic, inventory, offer)) {
    if (nics.kind == NicKind::passthrough) {
      offer_whole(*device, inventory, offer, for_vms, {device});
    } else if (device->function.physical_function.empty()) {
      offer_virtual_functions(*device, inventory, offer, for_vms);
    }
  }
  limit(offer, nics.select, inventory);
  for (auto& slot : offer.slots) { slot.device.vfio = devices.vfio; }
  return offer;
}

}  // namespace virtrain::harness
