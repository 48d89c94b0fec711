#include "harness/bisect/stored_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <type_traits>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

using Values = std::map<std::string, std::string>;

std::string shown_key(bool value) {
  return value ? "true" : "false";
}
std::string shown_key(std::int64_t value) {
  return std::to_string(value);
}
std::string shown_key(double value) {
  return fmt::format("{}", value);
}
std::string shown_key(const std::string& value) {
  return value;
}
std::string shown_key(const std::vector<std::string>& values) {
  return join(values, ", ");
}
template <typename Enum>
  requires std::is_enum_v<Enum>
std::string shown_key(Enum value) {
  return std::string(to_string(value));
}

/// Keys with their values, but for those that are as if they were not given.
class KeyWriter {
 public:
  explicit KeyWriter(Values& values) : values_(values) {}

  template <typename T>
  void add(const std::string& key, const T& value, const T& otherwise = {}) {
    if (value != otherwise) { values_[key] = shown_key(value); }
  }
  template <typename T>
  void add(const std::string& key, const std::optional<T>& value) {
    if (value) { values_[key] = shown_key(*value); }
  }

 private:
  Values& values_;
};

void add_selection(KeyWriter& keys, const std::string& at, const DeviceSelection& select) {
  keys.add(at + ".vendor", select.vendor);
  keys.add(at + ".address", select.addresses);
  keys.add(at + ".uuid", select.uuids);
  keys.add(at + ".name", select.name);
  keys.add(at + ".count", select.count);
}

/// All of them: which of the host's devices are taken from its drivers, and what is done to them. A test
/// holds this against the keys that scenarios have.
void add_devices(KeyWriter& keys, const Devices& devices) {
  keys.add("devices.kind", devices.kind, DeviceKind::none);
  add_selection(keys, "devices.select", devices.select);
  keys.add("devices.type", devices.vgpu_type);
  const std::string clique = devices.clique == vmctl::Clique::all           ? "all"
                             : devices.clique == vmctl::Clique::same_switch ? "auto"
                                                                            : "";
  keys.add("devices.clique", clique);
  keys.add("devices.vfio", devices.vfio, vmctl::Vfio::container);
  keys.add("devices.spread", devices.spread);
  const auto& settings = devices.settings;
  keys.add("devices.settings.ecc", settings.ecc);
  keys.add("devices.settings.persistence", settings.persistence);
  keys.add("devices.settings.mig", settings.mig);
  keys.add("devices.settings.power_limit", settings.power_limit_watts);
  keys.add("devices.settings.graphics_clock", settings.graphics_clock_mhz);
  keys.add("devices.settings.memory_clock", settings.memory_clock_mhz);
  keys.add("devices.vgpu_scheduler", devices.vgpu_scheduler);
  keys.add("devices.between_tenants", devices.between_tenants, vmctl::BetweenTenants::none);
  keys.add("devices.licence_token", devices.licence_token);
  if (!devices.nics) { return; }
  keys.add("devices.nics.kind", std::optional(devices.nics->kind));
  keys.add("devices.nics.per_node", std::optional(devices.nics->per_node));
  add_selection(keys, "devices.nics.select", devices.nics->select);
}

/// Values of one tenant of a case, by key.
Values values_of(const Case& placed, const Tenant& tenant) {
  Values values;
  KeyWriter keys(values);
  for (const auto& [name, value] : tenant.workload.environment) { values["workload.env." + name] = value; }
  if (!placed.guest.is_mirror()) { values["guest.image"] = placed.guest.image; }
  if (placed.guest.nccl_topology.starts_with('/')) {
    values["guest.nccl_topology"] = placed.guest.nccl_topology;
  }
  keys.add("guest.hugepages", placed.guest.hugepages);
  keys.add("guest.memory_encryption", placed.guest.memory_encryption, vmctl::MemoryEncryption::none);
  add_devices(keys, placed.devices);
  keys.add("vgpu_type", tenant.vgpu_type);
  return values;
}

std::vector<Values> values_in(const Scenario& comparison, const char* name) {
  std::vector<Values> values;
  for (const auto& arm : comparison.arms) {
    if (arm.name != name) { continue; }
    for (const auto& placed : arm.cases) {
      for (const auto& tenant : placed.tenants) { values.push_back(values_of(placed, tenant)); }
    }
  }
  return values;
}

std::optional<std::string> value_at(const std::vector<Values>& tenants, std::size_t tenant,
                                    const std::string& key) {
  if (tenant >= tenants.size() || !tenants[tenant].contains(key)) { return std::nullopt; }
  return tenants[tenant].at(key);
}

std::string shown_value(const std::optional<std::string>& value) {
  return value ? excerpt(*value) : not_set;
}

}  // namespace

std::vector<Setting> settings_to_confirm(const Scenario& comparison, const std::vector<Setting>& given) {
  const auto good = values_in(comparison, arm_good), tried = values_in(comparison, arm_tried);
  std::vector<Setting> settings;
  for (std::size_t tenant = 0; tenant < std::max(good.size(), tried.size()); ++tenant) {
    auto keys = tenant < good.size() ? good[tenant] : Values();
    if (tenant < tried.size()) { keys.insert(tried[tenant].begin(), tried[tenant].end()); }
    for (const auto& [key, value] : keys) {
      const Setting setting{key, value_at(good, tenant, key), value_at(tried, tenant, key)};
      if (!contains(given, setting) && !contains(settings, setting)) { settings.push_back(setting); }
    }
  }
  return settings;
}

std::string words_of(const Setting& setting) {
  auto words = fmt::format("{}: {}", excerpt(setting.key), shown_value(setting.before));
  if (setting.before != setting.after) { words += " → " + shown_value(setting.after); }
  return words;
}

}  // namespace virtrain::harness
