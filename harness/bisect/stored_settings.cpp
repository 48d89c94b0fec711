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

/// Every key of a record: which of the host's devices are taken from its drivers, and what is done to them. A
/// record that may be absent says those, too, that are as if they were not given.
template <DescribedRecord Record>
void add_keys(Values& values, const std::string& at, const Record& record, bool with_defaults = false) {
  for_each_field<Record>([&](const auto& field) {
    const auto& value = record.*field.member;
    using Value = std::remove_cvref_t<decltype(value)>;
    if (field.is.key == nullptr) { return; }
    const auto key = at + "." + field.is.key;
    if constexpr (is_optional<Value>) {
      if constexpr (DescribedRecord<typename Value::value_type>) {
        if (value) { add_keys(values, key, *value, true); }
      } else if (value) {
        values[key] = value_text(value);
      }
    } else if constexpr (DescribedRecord<Value>) {
      add_keys(values, key, value);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      if (!value.empty()) { values[key] = join(value, ", "); }
    } else if (with_defaults || value != Record().*field.member) {
      values[key] = value_text(value);
    }
  });
}

/// Values of one tenant of a case, by key.
Values values_of(const Case& placed, const Tenant& tenant) {
  Values values;
  for (const auto& [name, value] : tenant.workload.environment) { values["workload.env." + name] = value; }
  if (!placed.guest.is_mirror()) { values["guest.image"] = placed.guest.image; }
  if (placed.guest.nccl_topology.starts_with('/')) {
    values["guest.nccl_topology"] = placed.guest.nccl_topology;
  }
  if (placed.guest.hugepages) { values["guest.hugepages"] = value_text(true); }
  if (placed.guest.memory_encryption != vmctl::MemoryEncryption::none) {
    values["guest.memory_encryption"] = to_string(placed.guest.memory_encryption);
  }
  add_keys(values, "devices", placed.devices);
  if (!tenant.vgpu_type.empty()) { values["vgpu_type"] = tenant.vgpu_type; }
  return values;
}

/// A launcher is a program of this machine, with whatever arguments.
std::vector<Setting> settings_of_hosts(const HostList& hosts) {
  if (hosts.hosts.empty()) { return {}; }
  std::vector<std::string> names;
  for (const auto& host : hosts.hosts) { names.push_back(host.name); }
  const auto launcher = join(hosts.launcher, " "), all = join(names, ", ");
  return {{.key = "hosts.launcher", .before = launcher, .after = launcher},
          {.key = "hosts.hosts", .before = all, .after = all}};
}

/// The same of machines that arms attach.
void add_settings_of_attached(const Scenario& stored, std::vector<Setting>& settings) {
  for (const auto& machine : attached_machines(stored)) {
    const auto words = join(machine.launcher, " ");
    settings.push_back({.key = "arms." + machine.name + ".launcher", .before = words, .after = words});
  }
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
  std::vector<Setting> settings = settings_of_hosts(comparison.hosts);
  add_settings_of_attached(comparison, settings);
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

std::vector<Setting> settings_to_confirm(const Scenario& stored) {
  std::vector<Setting> settings = settings_of_hosts(stored.hosts);
  add_settings_of_attached(stored, settings);
  for (const auto& arm : stored.arms) {
    for (const auto& placed : arm.cases) {
      for (const auto& tenant : placed.tenants) {
        for (const auto& [key, value] : values_of(placed, tenant)) {
          add_once(settings, Setting{.key = key, .before = value, .after = value});
        }
      }
    }
  }
  return settings;
}

std::string words_of_unconfirmed(const std::vector<Setting>& stored) {
  std::string lines;
  for (const auto& one : stored) { lines += "\n  " + words_of(one); }
  return "the stored scenarios set environment variables or name files of this host, and their trials would "
         "run with your rights; the database cannot tell whether they were recorded here or imported:" +
         lines;
}

std::string words_of(const Setting& setting) {
  auto words = fmt::format("{}: {}", excerpt(setting.key), shown_value(setting.before));
  if (setting.before != setting.after) { words += " → " + shown_value(setting.after); }
  return words;
}

}  // namespace virtrain::harness
