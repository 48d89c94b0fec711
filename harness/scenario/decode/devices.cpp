#include "harness/scenario/decode/devices.h"

#include <algorithm>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

const std::vector<std::string> cliques{"off", "auto", "all"};
const std::vector<std::string> off_on{"off", "on"};

/// "0x10DE" as "0x10de", the way sysfs spells it.
std::optional<std::string> vendor_id(std::string text) {
  Scanner in(text);
  if (!in.take("0x") || in.take_while(is_hex_digit, 4, 4).empty() || !in.at_end()) { return std::nullopt; }
  return lower(std::move(text));
}

bool is_pci_address(const std::string& text) {
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  Scanner in(text);
  return !in.take_while(is_hex, 4, 4).empty() && in.take(":") && !in.take_while(is_hex, 2, 2).empty() &&
         in.take(":") && (in.take("0") || in.take("1")) && !in.take_while(is_hex, 1, 1).empty() &&
         in.take(".") && !in.take_while([](char c) { return c >= '0' && c <= '7'; }, 1, 1).empty() &&
         in.at_end();
}

/// Parents of mediated devices need not be PCI functions: the kernel's sample is called "mtty".
bool is_parent_name(const std::string& text) {
  const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-'; };
  return text.size() <= 64 && !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), is_part);
}

constexpr const char* address_pattern = "^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]$";
constexpr const char* parent_pattern = "^[A-Za-z][A-Za-z0-9_.-]{0,63}$";

/// The texts of a list that `is_right` accepts; `expected` is said of the others.
template <typename IsRight>
std::vector<std::string> read_texts(MapReader& in, const char* key, const About& about, const Schema& rules,
                                    const char* expected, IsRight&& is_right, Diagnostics& diagnostics) {
  std::vector<std::string> texts;
  const auto list = in.child(key, about);
  if (!list) { return texts; }
  for (const auto& item : read_set(*list, key, 1, 1024, diagnostics)) {
    if (item.describes()) {
      *item.schema = rules;
      break;
    }
    const std::string text = item.node.IsScalar() ? item.node.Scalar() : "";
    if (!is_right(text)) {
      diagnostics.add(item.node.Mark(), "{} must be {}", key, expected);
    } else if (contains(texts, text)) {
      diagnostics.add(item.node.Mark(), "{} {} is there twice", key, excerpt(text));
    } else {
      texts.push_back(text);
    }
  }
  return texts;
}

DeviceSelection decode_select(const Field& field, DeviceKind kind, bool has_uuids, Diagnostics& diagnostics) {
  DeviceSelection selection;
  MapReader by(field, "select", diagnostics);
  if (const auto vendor =
          by.text("vendor", 32, {.text = "PCI vendor id", .absent = "any vendor", .example = "0x10de"})) {
    selection.vendor = vendor_id(*vendor);
    if (!selection.vendor) {
      by.refuse("vendor", "vendor: '{}' is not a PCI vendor id such as 0x10de", excerpt(*vendor));
    }
  }
  if (field.describes()) {  // 0x10de without quotes is a number to editors
    auto& vendor = (*field.schema)["properties"]["vendor"];
    vendor.erase("type");
    vendor.erase("maxLength");
    vendor["anyOf"] = {{{"type", "string"}, {"pattern", "^0x[0-9a-fA-F]{4}$"}},
                       {{"type", "integer"}, {"minimum", 0}, {"maximum", 65535}}};
  }
  const About of_count{.text = "Largest number of devices; the first ones by address are taken",
                       .absent = "all of them",
                       .example = 4};
  if (const auto count = by.integer("count", {1, most_per_node * most_nodes}, of_count)) {
    selection.count = *count;
  }
  const Schema address{{"type", "string"}, {"pattern", address_pattern}};
  const Schema parent{{"type", "string"}, {"pattern", parent_pattern}};
  const About addresses{.text =
                            "PCI addresses of devices of any class; with kind vgpu also names of parents "
                            "of mediated devices",
                        .absent = "any address",
                        .example = Schema::array({"0000:17:00.0"})};
  if (kind == DeviceKind::vgpu || (field.describes() && has_uuids)) {
    selection.addresses = read_texts(
        by, "address", addresses, {{"anyOf", {address, parent}}},
        "a PCI address such as 0000:17:00.0, or the name of a vGPU parent",
        [](const std::string& text) { return is_pci_address(text) || is_parent_name(text); }, diagnostics);
  } else {
    selection.addresses = read_texts(by, "address", addresses, address, "a PCI address such as 0000:17:00.0",
                                     is_pci_address, diagnostics);
  }
  if (has_uuids) {
    selection.uuids = read_texts(
        by, "uuid",
        {.text = "UUIDs of GPUs, as nvidia-smi -L shows them",
         .absent = "any GPU",
         .example = Schema::array({"GPU-8f1c2a4e-6b3d-4c5f-9a07-1d2e3f405162"})},
        {{"type", "string"}, {"pattern", "^GPU-"}},
        "a GPU's UUID such as GPU-8f1c… (nvidia-smi -L shows them)",
        [](const std::string& text) { return text.starts_with("GPU-"); }, diagnostics);
  }
  if (const auto name = by.text(
          "name", 128, {.text = "Part of the device's name", .absent = "any name", .example = "A100"})) {
    selection.name = *name;
  }
  by.finish();
  return selection;
}

/// "250W" as 250; `unit` as it is written, with `decimals` at most.
std::optional<double> quantity(MapReader& in, const char* key, const std::string& unit, std::size_t decimals,
                               double least, double most, const About& about) {
  const auto text = in.text(key, 32, about);
  if (!text) { return std::nullopt; }
  if (text->ends_with(unit)) {
    const auto digits = text->substr(0, text->size() - unit.size());
    Scanner in_digits(digits);
    const bool is_number =
        !in_digits.take_while(is_digit, 1, 6).empty() &&
        (decimals == 0 || !in_digits.take(".") || !in_digits.take_while(is_digit, 1, decimals).empty());
    const auto value = is_number && in_digits.at_end() ? parse_number(digits) : std::nullopt;
    if (value && *value >= least && *value <= most) { return value; }
  }
  in.refuse(key, "{}: '{}' is not allowed (allowed: {}{} to {}{}{})", key, excerpt(*text), least, unit, most,
            unit, decimals == 0 ? ", whole numbers" : "");
  return std::nullopt;
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
  constexpr const char* as_found = "as virtrain finds it";
  settings.power_limit_watts = quantity(in, "power_limit", "W", 3, 1, 10'000,
                                        {.text = "Largest power draw",
                                         .absent = as_found,
                                         .example = "250W",
                                         .pattern = "^[0-9]{1,6}(\\.[0-9]{1,3})?W$"});
  if (const auto clock = quantity(in, "graphics_clock", "MHz", 0, 1, 10'000,
                                  {.text = "Clock at which the GPU is locked",
                                   .absent = as_found,
                                   .example = "1410MHz",
                                   .pattern = "^[0-9]{1,6}MHz$"})) {
    settings.graphics_clock_mhz = static_cast<int>(*clock);
  }
  const auto switched = [&](const char* key, std::optional<bool>& into, const char* text,
                            const char* absent) {
    if (const auto i = in.one_of(key, off_on, {.text = text, .absent = absent})) { into = *i == 1; }
  };
  switched("ecc", settings.ecc, "Error correction of the GPU's memory", as_found);
  switched("persistence", settings.persistence,
           "Whether the driver keeps the GPU's state while nobody holds it",
           "on with power_limit or graphics_clock, else as virtrain finds it");
  switched("mig", settings.mig, "Multi-instance GPU", as_found);
  keep_what_is_set(in, settings);
  in.schema_rules({{"if", {{"anyOf", {{{"required", {"power_limit"}}}, {{"required", {"graphics_clock"}}}}}}},
                   {"then", {{"properties", {{"persistence", {{"enum", {"on"}}}}}}}}});
  in.finish();
  return settings;
}

Nics decode_nics(const Field& field, Diagnostics& diagnostics) {
  Nics nics;
  MapReader in(field, "nics", diagnostics);
  in.require("kind");
  in.one_of("kind", nics.kind, "Whole adapters (passthrough), or virtual functions (vf)");
  in.integer("per_node", {1, 16}, nics.per_node, "Adapters of each node");
  if (const auto select =
          in.child("select", {.text = "Which adapters of the host", .absent = "all RDMA adapters"})) {
    nics.select = decode_select(*select, DeviceKind::passthrough, false, diagnostics);
  }
  in.finish();
  return nics;
}

/// Keys that have a meaning with some kinds only.
struct OnlyWith {
  const char* key;
  std::vector<DeviceKind> kinds;
};
const std::vector<OnlyWith> only_with = {
    {"select", {DeviceKind::passthrough, DeviceKind::vgpu, DeviceKind::vf}},
    {"type", {DeviceKind::vgpu}},
    {"licence_token", {DeviceKind::vgpu}},
    {"clique", {DeviceKind::passthrough}},
    {"vfio", {DeviceKind::passthrough}},
    {"spread", {DeviceKind::vgpu, DeviceKind::vf}},
    {"vgpu_scheduler", {DeviceKind::vgpu}},
    {"between_tenants", {DeviceKind::passthrough, DeviceKind::vf}},
    {"settings", {DeviceKind::passthrough, DeviceKind::vgpu}},
    {"nics", {DeviceKind::passthrough, DeviceKind::vgpu, DeviceKind::vf}},
};

std::vector<std::string> words_of(const std::vector<DeviceKind>& kinds) {
  std::vector<std::string> words;
  words.reserve(kinds.size());
  for (const auto kind : kinds) { words.emplace_back(to_string(kind)); }
  return words;
}

void refuse_contradictions(MapReader& in, const Devices& devices) {
  for (const auto& [key, kinds] : only_with) {
    if (!in.has(key) || contains(kinds, devices.kind)) { continue; }
    in.refuse(key, "{} has no meaning with kind {} (allowed with kind {}; remove one of them)", key,
              to_string(devices.kind), join(words_of(kinds), ", "));
  }
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
  for (const auto& [key, kinds] : only_with) {
    all.push_back(
        {{"if", {{"required", {key}}}}, {"then", {{"properties", {{"kind", {{"enum", words_of(kinds)}}}}}}}});
  }
  const Schema addresses{{"items", {{"pattern", address_pattern}}}};
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
  in.require("kind");
  const About of_kind{
      .text = "Whole devices (passthrough), vGPUs (those backed by MIG too), virtual functions (vf), or none",
      .example = "passthrough",
      .meant = {
          {"mig",
           "a MIG-backed vGPU is kind vgpu with a type such as A100-2-10C, which virtrain doctor --devices "
           "lists; MIG inside one VM is kind passthrough with settings.mig"},
          {"mdev", "a mediated device is kind vgpu"},
          {"sriov", "virtual functions are kind vf"}}};
  const auto kind = in.one_of("kind", enum_names<DeviceKind>(), of_kind);
  if (kind) { devices.kind = static_cast<DeviceKind>(*kind); }
  if (const auto select = in.child("select", {.text = "Which devices of the host", .absent = "all GPUs"})) {
    devices.select = decode_select(*select, devices.kind, devices.kind != DeviceKind::vf, diagnostics);
  }
  const About of_type{.text = "vGPU type by name or id; virtrain doctor --devices lists them",
                      .absent = "each tenant with vGPUs needs a vgpu_type",
                      .example = "A100-20C"};
  if (const auto type = in.text("type", most_type_bytes, of_type)) { devices.vgpu_type = *type; }
  const About clique{.text =
                         "Which GPUs of a VM are told that they reach each other over PCIe: none (off), "
                         "those below one switch (auto), or all",
                     .fallback = "off"};
  if (const auto i = in.one_of("clique", cliques, clique)) {
    devices.clique = static_cast<vmctl::Clique>(*i);
  }
  in.one_of("vfio", devices.vfio,
            "Interface of the kernel through which QEMU maps a guest's memory for its devices");
  in.boolean("spread", devices.spread,
             "Whether a case's parts of cards (vGPUs, virtual functions) are on as many cards as possible "
             "(true), or on as few (false)");
  if (const auto settings = in.child("settings", {.text = "Settings of each GPU, put back after the run",
                                                  .absent = "as virtrain finds them"})) {
    devices.settings = decode_settings(*settings, diagnostics);
  }
  const About of_scheduler{.text = "How a card shares its time among vGPUs, put back after the run",
                           .absent = "as virtrain finds it"};
  if (const auto i = in.one_of("vgpu_scheduler", enum_names<vmctl::VgpuScheduler>(), of_scheduler)) {
    devices.vgpu_scheduler = enum_values<vmctl::VgpuScheduler>().at(*i);
  }
  in.one_of("between_tenants", devices.between_tenants,
            "What happens to a device before each VM that gets it: none, reset, or erase (an NVMe disk is "
            "overwritten with zeros)");
  const About token{.text = "Absolute path of the vGPUs' client configuration token; it is never logged",
                    .absent = "guests get no token",
                    .example = "/etc/virtrain/client_configuration_token.tok",
                    .pattern = "^/.+$"};
  if (const auto path = in.text("licence_token", 4096, token)) { devices.licence_token = *path; }
  if (const auto nics =
          in.child("nics", {.text = "RDMA adapters of each node, near its GPUs", .absent = "no adapters"})) {
    devices.nics = decode_nics(*nics, diagnostics);
  }
  if (kind) { refuse_contradictions(in, devices); }
  in.schema_rules(contradiction_rules());
  in.finish();
  return devices;
}

}  // namespace virtrain::harness
