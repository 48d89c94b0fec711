#include "vmctl/resources/devices/virtual_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "vmctl/api/pci.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/devices/binding.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* sriov_manage = "/usr/lib/nvidia/sriov-manage";
constexpr std::chrono::seconds sriov_manage_deadline{120};

/// As sysfs has them.
struct FunctionsState {
  std::string count, drivers_autoprobe;
};
BOOST_DESCRIBE_STRUCT(FunctionsState, (), (count, drivers_autoprobe))

std::string count_now(const std::string& physical_function) {
  return read_locked_value(pci_folder(physical_function) / "sriov_numvfs").value_or("");
}

/// How many virtual functions there must be so that these are among them; nothing where it can never have one
/// of them.
std::optional<int> count_that_has(const PciFunction& physical, std::vector<std::string> wanted) {
  for (int count = 0; count <= physical.virtual_functions_possible; ++count) {
    if (wanted.empty()) { return count; }
    if (const auto next = virtual_function_address(physical, count)) { std::erase(wanted, *next); }
  }
  return std::nullopt;
}

/// NVIDIA's driver refuses a plain write to sriov_numvfs.
bool needs_sriov_manage(const std::string& physical_function) {
  return bound_driver(physical_function) == "nvidia" && is_there(sriov_manage);
}

void run_sriov_manage(const char* what, const std::string& physical_function) {
  CommandOptions options;
  options.deadline = sriov_manage_deadline;
  run_checked({sriov_manage, what, physical_function}, options);
}

/// Without it the host's own driver would take each of them up.
std::filesystem::path autoprobe_of(const std::string& physical_function) {
  return pci_folder(physical_function) / "sriov_drivers_autoprobe";
}

void make(const Effect& effect) {
  if (needs_sriov_manage(effect.name)) { return run_sriov_manage("-e", effect.name); }
  if (is_there(autoprobe_of(effect.name))) { write_sysfs(autoprobe_of(effect.name), "0"); }
  write_sysfs(pci_folder(effect.name) / "sriov_numvfs", from_state<FunctionsState>(effect.state).count);
}

std::string left(const Effect& effect) {
  const auto now = count_now(effect.name);
  // Another number is somebody else's; NVIDIA's script makes as many as there can be.
  const bool ours = now == from_state<FunctionsState>(effect.state).count || needs_sriov_manage(effect.name);
  if (now != "0" && !now.empty() && ours) { return now + " virtual functions"; }
  const auto autoprobe = read_value(autoprobe_of(effect.name)).value_or("");
  return autoprobe != from_state<FunctionsState>(effect.state).drivers_autoprobe
             ? "drivers are kept off its virtual functions"
             : "";
}

void remove(const Effect& effect) {
  if (left(effect).empty()) { return; }
  if (needs_sriov_manage(effect.name)) { return run_sriov_manage("-d", effect.name); }
  for (const auto& link : entries_of(pci_folder(effect.name))) {
    if (!link.filename().string().starts_with("virtfn")) { continue; }
    if (const auto users = users_of(link_name(link)); !users.empty()) {
      throw Error("remove the virtual functions of " + effect.name, ErrorCode::busy,
                  link_name(link) + ": " + in_words(users[0]));
    }
  }
  if (count_now(effect.name) != "0") { write_sysfs(pci_folder(effect.name) / "sriov_numvfs", "0"); }
  const auto before = from_state<FunctionsState>(effect.state).drivers_autoprobe;
  if (!before.empty()) { write_sysfs(autoprobe_of(effect.name), before); }
}

std::optional<Effect> effect_of(const std::string& physical_function,
                                const std::vector<std::string>& wanted) {
  const auto missing = [](const std::string& address) { return !is_there(pci_folder(address)); };
  if (std::none_of(wanted.begin(), wanted.end(), missing)) { return std::nullopt; }
  const auto operation = "make virtual functions of " + physical_function;
  const auto physical = read_pci_function("/", physical_function);
  if (!physical || physical->virtual_functions_possible == 0) {
    throw Error(operation, ErrorCode::not_found, "it can have none (SR-IOV is off in its firmware?)");
  }
  const auto count = count_that_has(*physical, wanted);
  if (!count) {
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("it can have {}, and {} would not be among them",
                            physical->virtual_functions_possible, join(wanted, " ")));
  }
  const auto now = count_now(physical_function);
  if (now != "0") {
    throw Error(operation, ErrorCode::busy,
                fmt::format("it has {} already, and not all of {}", now, join(wanted, " ")));
  }
  const FunctionsState state{std::to_string(*count),
                             read_value(autoprobe_of(physical_function)).value_or("")};
  return Effect{.kind = EffectKind::virtual_functions, .name = physical_function, .state = to_state(state)};
}

}  // namespace

std::vector<Effect> plan_virtual_functions(const std::vector<DeviceGrant>& grants) {
  std::map<std::string, std::vector<std::string>> wanted;
  for (const auto& grant : grants) {
    if (!grant.physical_function.empty()) { wanted[grant.physical_function].push_back(grant.address); }
  }
  std::vector<Effect> effects;
  for (const auto& [physical_function, functions] : wanted) {
    if (auto effect = effect_of(physical_function, functions)) { effects.push_back(std::move(*effect)); }
  }
  return effects;
}

const Handler virtual_functions_handler{.kind = EffectKind::virtual_functions,
                                        .make = make,
                                        .left = left,
                                        .undo = remove,
                                        .device = named_device};

}  // namespace virtrain::vmctl
