#include <algorithm>
#include <string_view>

#include "common/text/text.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/sections.h"

namespace virtrain::harness {
namespace {

/// Which addresses and UUIDs a selection may name.
struct Selectable {
  bool vgpu_parents = false, uuids = false;
};

DeviceSelection decode_select(const Field& field, Selectable may, Diagnostics& diagnostics) {
  DeviceSelection selection;
  MapReader by(field, "select", diagnostics);
  read_fields(by, selection, [&](Property& is) {
    const std::string_view key = is.key;
    if (key == "address" && may.vgpu_parents) {
      is.fits = is_vgpu_parent;
      is.refusal = "a PCI address such as 0000:17:00.0, or the name of a vGPU parent";
    }
    return key != "uuid" || may.uuids;
  });
  if (selection.vendor) { selection.vendor = lower(*selection.vendor); }  // the way sysfs spells it
  if (field.describes()) {
    auto& properties = (*field.schema)["properties"];
    auto& vendor = properties["vendor"];  // 0x10de without quotes is a number to editors
    vendor.erase("type");
    vendor.erase("maxLength");
    vendor["anyOf"] = {{{"type", "string"}, {"pattern", "^0x[0-9a-fA-F]{4}$"}},
                       {{"type", "integer"}, {"minimum", 0}, {"maximum", 65535}}};
    if (may.vgpu_parents) {
      auto& item = properties["address"]["items"];
      const Schema parent{{"type", "string"}, {"pattern", "^[A-Za-z][A-Za-z0-9_.-]{0,63}$"}};
      item = {{"anyOf", {item, parent}}};
    }
  }
  by.finish();
  return selection;
}

/// Without persistence the driver forgets these as soon as nobody holds the GPU, and a run stops the daemon
/// that would hold it.
void keep_what_is_set(MapReader& in, vmctl::DeviceSettings& settings) {
  std::vector<std::string> forgotten;
  for (const auto* key : {"power_limit", "graphics_clock"}) {
    if (in.has(key)) { forgotten.emplace_back(key); }
  }
  if (forgotten.empty()) { return; }
  if (!settings.persistence) { settings.persistence = true; }
  if (*settings.persistence) { return; }
  in.refuse("persistence", "persistence: off has the driver forget {} at once (allowed with that: on)",
            join(forgotten, " and "));
}

vmctl::DeviceSettings decode_settings(const Field& field, Diagnostics& diagnostics) {
  vmctl::DeviceSettings settings;
  MapReader in(field, "settings", diagnostics);
  read_fields(in, settings);
  keep_what_is_set(in, settings);
  in.schema_rules({{"if", {{"anyOf", {{{"required", {"power_limit"}}}, {{"required", {"graphics_clock"}}}}}}},
                   {"then", {{"properties", {{"persistence", {{"enum", {"on"}}}}}}}}});
  in.finish();
  return settings;
}

Nics decode_nics(const Field& field, Diagnostics& diagnostics) {
  Nics nics;
  MapReader in(field, "nics", diagnostics);
  read_fields(in, nics, [&](const Property& is) {
    if (std::string_view(is.key) != "select") { return true; }
    if (const auto select = in.child(is.key, about(is))) {
      nics.select = decode_select(*select, {}, diagnostics);
    }
    return false;
  });
  in.finish();
  return nics;
}

/// Calls `visit` with the key of each row that has a meaning with some kinds only, and with their words.
template <typename Visit>
void for_each_bound_to_kinds(Visit&& visit) {
  for_each_field<Devices>([&](const auto& field) {
    std::vector<std::string> kinds;
    for (const auto* kind : field.is.with_kind) {
      if (kind != nullptr) { kinds.emplace_back(kind); }
    }
    if (!kinds.empty()) { visit(field.is.key, kinds); }
  });
}

void refuse_contradictions(MapReader& in, const Devices& devices) {
  const std::string kind = to_string(devices.kind);
  for_each_bound_to_kinds([&](const char* key, const std::vector<std::string>& kinds) {
    if (!in.has(key) || std::ranges::find(kinds, kind) != kinds.end()) { return; }
    in.refuse(key, "{} has no meaning with kind {} (allowed with kind {}; remove one of them)", key, kind,
              join(kinds, ", "));
  });
  if (in.has("licence_token") && !devices.licence_token.starts_with('/')) {
    in.refuse("licence_token", "licence_token is the absolute path of a client configuration token");
  }
  if (devices.kind == DeviceKind::vf && devices.select.addresses.empty()) {
    in.refuse("kind", "kind vf needs select.address: the physical functions whose virtual ones are meant");
  }
}

/// The same for the schema.
Schema contradiction_rules() {
  Schema all = Schema::array();
  for_each_bound_to_kinds([&](const char* key, const std::vector<std::string>& kinds) {
    all.push_back({{"if", {{"required", {key}}}}, {"then", {{"properties", {{"kind", {{"enum", kinds}}}}}}}});
  });
  const Schema addresses{{"items", {{"pattern", property_of(&DeviceSelection::addresses).pattern}}}};
  all.push_back(
      {{"if", {{"properties", {{"kind", {{"const", "vf"}}}}}, {"required", {"kind"}}}},
       {"then",
        {{"required", {"select"}},
         {"properties", {{"select", {{"required", {"address"}}, {"not", {{"required", {"uuid"}}}}}}}}}}});
  all.push_back({{"if", {{"properties", {{"kind", {{"enum", {"passthrough", "vf"}}}}}}}},
                 {"then", {{"properties", {{"select", {{"properties", {{"address", addresses}}}}}}}}}});
  return {{"allOf", all}};
}

}  // namespace

Devices decode_devices(const Field& field, Diagnostics& diagnostics) {
  Devices devices;
  MapReader in(field, "devices", diagnostics);
  bool knows_kind = false;
  read_fields(in, devices, [&](const Property& is) {
    const std::string_view key = is.key;
    if (key == "kind") {
      const auto kind = in.one_of(is.key, scenario_words<DeviceKind>(is), about(is));
      knows_kind = kind.has_value();
      if (kind) { devices.kind = enum_values<DeviceKind>()[*kind]; }
      return false;
    }
    if (key != "select" && key != "settings" && key != "nics") { return true; }
    const auto child = in.child(is.key, about(is));
    if (!child) { return false; }
    if (key == "select") {
      const Selectable may{.vgpu_parents = devices.kind == DeviceKind::vgpu || in.describes(),
                           .uuids = devices.kind != DeviceKind::vf};
      devices.select = decode_select(*child, may, diagnostics);
    } else if (key == "settings") {
      devices.settings = decode_settings(*child, diagnostics);
    } else {
      devices.nics = decode_nics(*child, diagnostics);
    }
    return false;
  });
  if (knows_kind) { refuse_contradictions(in, devices); }
  in.schema_rules(contradiction_rules());
  in.finish();
  return devices;
}

}  // namespace virtrain::harness
