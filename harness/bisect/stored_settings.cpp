#include "harness/bisect/stored_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

using Values = std::map<std::string, std::string>;

/// Of one tenant of a case, by key.
Values values_of(const Case& placed, const Tenant& tenant) {
  Values values;
  for (const auto& [name, value] : tenant.workload.environment) { values["workload.env." + name] = value; }
  if (!placed.guest.is_mirror()) { values["guest.image"] = placed.guest.image; }
  if (placed.guest.nccl_topology.starts_with('/')) {
    values["guest.nccl_topology"] = placed.guest.nccl_topology;
  }
  if (!placed.devices.licence_token.empty()) {
    values["devices.licence_token"] = placed.devices.licence_token;
  }
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
