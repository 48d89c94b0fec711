#include "harness/scenario/decode_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/scanner.h"
#include "common/text.h"
#include "common/units.h"

namespace virtrain::harness {
namespace {

const std::vector<std::string> device_kinds{"none", "passthrough", "vgpu", "vf"};
const std::vector<std::string> nic_kinds{"passthrough", "vf"};
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

/// The texts of a list that `is_right` accepts; `expected` is said of the others.
template <typename IsRight>
std::vector<std::string> read_texts(MapReader& in, const char* key, const char* expected, IsRight&& is_right,
                                    Diagnostics& diagnostics) {
  std::vector<std::string> texts;
  const auto list = in.child(key);
  if (!list) { return texts; }
  for (const auto& item : read_list(*list, key, 1, 1024, diagnostics)) {
    const std::string text = item.IsScalar() ? item.Scalar() : "";
    if (!is_right(text)) {
      diagnostics.add(item.Mark(), fmt::format("{} must be {}", key, expected));
    } else if (std::find(texts.begin(), texts.end(), text) != texts.end()) {
      diagnostics.add(item.Mark(), fmt::format("{} {} is there twice", key, excerpt(text)));
    } else {
      texts.push_back(text);
    }
  }
  return texts;
}

DeviceSelection decode_select(const YAML::Node& node, DeviceKind kind, bool has_uuids,
                              Diagnostics& diagnostics) {
  DeviceSelection selection;
  MapReader by(node, "select", diagnostics);
  if (const auto vendor = by.text("vendor", 32)) {
    selection.vendor = vendor_id(*vendor);
    if (!selection.vendor) {
      by.refuse("vendor",
                fmt::format("vendor: '{}' is not a PCI vendor id such as 0x10de", excerpt(*vendor)));
    }
  }
  if (const auto count = by.integer("count", {1, most_per_node * most_nodes})) { selection.count = *count; }
  if (kind == DeviceKind::vgpu) {
    selection.addresses = read_texts(
        by, "address", "a PCI address such as 0000:17:00.0, or the name of a vGPU parent",
        [](const std::string& text) { return is_pci_address(text) || is_parent_name(text); }, diagnostics);
  } else {
    selection.addresses =
        read_texts(by, "address", "a PCI address such as 0000:17:00.0", is_pci_address, diagnostics);
  }
  if (has_uuids) {
    selection.uuids = read_texts(
        by, "uuid", "a GPU's UUID such as GPU-8f1c… (nvidia-smi -L shows them)",
        [](const std::string& text) { return text.starts_with("GPU-"); }, diagnostics);
  }
  if (const auto name = by.text("name", 128)) { selection.name = *name; }
  by.finish();
  return selection;
}

/// "250W" as 250; `unit` as it is written.
std::optional<double> quantity(MapReader& in, const char* key, const std::string& unit, double least,
                               double most) {
  const auto text = in.text(key, 32);
  if (!text) { return std::nullopt; }
  if (text->ends_with(unit)) {
    const auto digits = text->substr(0, text->size() - unit.size());
    Scanner in_digits(digits);
    const bool is_number = !in_digits.take_while(is_digit, 1, 6).empty() &&
                           (!in_digits.take(".") || !in_digits.take_while(is_digit, 1, 3).empty());
    const auto value = is_number && in_digits.at_end() ? parse_number(digits) : std::nullopt;
    if (value && *value >= least && *value <= most) { return value; }
  }
  in.refuse(key, fmt::format("{}: '{}' is not allowed (allowed: {}{} to {}{})", key, excerpt(*text), least,
                             unit, most, unit));
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
  in.refuse("persistence",
            fmt::format("persistence: off has the driver forget {} at once (allowed with that: on)",
                        join(forgotten, " and ")));
}

vmctl::DeviceSettings decode_settings(const YAML::Node& node, Diagnostics& diagnostics) {
  vmctl::DeviceSettings settings;
  MapReader in(node, "settings", diagnostics);
  settings.power_limit_watts = quantity(in, "power_limit", "W", 1, 10'000);
  if (const auto clock = quantity(in, "graphics_clock", "MHz", 1, 10'000)) {
    settings.graphics_clock_mhz = static_cast<int>(*clock);
  }
  const auto switched = [&](const char* key, std::optional<bool>& into) {
    if (const auto i = in.one_of(key, off_on)) { into = *i == 1; }
  };
  switched("ecc", settings.ecc);
  switched("persistence", settings.persistence);
  switched("mig", settings.mig);
  keep_what_is_set(in, settings);
  in.finish();
  return settings;
}

Nics decode_nics(const YAML::Node& node, Diagnostics& diagnostics) {
  Nics nics;
  MapReader in(node, "nics", diagnostics);
  in.require("kind");
  if (const auto i = in.one_of("kind", nic_kinds)) { nics.kind = static_cast<NicKind>(*i); }
  nics.per_node = in.integer("per_node", {1, 16}).value_or(1);
  if (const auto select = in.child("select")) {
    nics.select = decode_select(*select, DeviceKind::passthrough, false, diagnostics);
  }
  in.finish();
  return nics;
}

/// Keys that have a meaning with some kinds only.
void refuse_contradictions(MapReader& in, const Devices& devices) {
  using Kind = DeviceKind;
  const auto only_with = [&](const char* key, std::initializer_list<Kind> kinds) {
    if (!in.has(key) || std::find(kinds.begin(), kinds.end(), devices.kind) != kinds.end()) { return; }
    std::vector<std::string> words;
    for (const auto kind : kinds) { words.emplace_back(to_string(kind)); }
    in.refuse(key, fmt::format("{} has no meaning with kind {} (allowed with kind {}; remove one of them)",
                               key, to_string(devices.kind), join(words, ", ")));
  };
  only_with("select", {Kind::passthrough, Kind::vgpu, Kind::vf});
  only_with("type", {Kind::vgpu});
  only_with("licence_token", {Kind::vgpu});
  if (in.has("licence_token") && !devices.licence_token.starts_with('/')) {
    in.refuse("licence_token", "licence_token is the absolute path of a client configuration token");
  }
  only_with("clique", {Kind::passthrough});
  only_with("spread", {Kind::vgpu, Kind::vf});
  only_with("settings", {Kind::passthrough, Kind::vgpu});
  only_with("nics", {Kind::passthrough, Kind::vgpu, Kind::vf});
  if (devices.kind == Kind::vf && devices.select.addresses.empty()) {
    in.refuse("kind", "kind vf needs select.address: the physical functions whose virtual ones are meant");
  }
}

}  // namespace

Devices decode_devices(const YAML::Node& node, Diagnostics& diagnostics) {
  Devices devices;
  MapReader in(node, "devices", diagnostics);
  in.require("kind");
  const auto kind = in.one_of("kind", device_kinds);
  if (kind) { devices.kind = static_cast<DeviceKind>(*kind); }
  if (const auto select = in.child("select")) {
    devices.select = decode_select(*select, devices.kind, devices.kind != DeviceKind::vf, diagnostics);
  }
  if (const auto type = in.text("type", most_type_bytes)) { devices.vgpu_type = *type; }
  if (const auto i = in.one_of("clique", cliques)) { devices.clique = static_cast<vmctl::Clique>(*i); }
  if (const auto spread = in.boolean("spread")) { devices.spread = *spread; }
  if (const auto settings = in.child("settings")) {
    devices.settings = decode_settings(*settings, diagnostics);
  }
  if (const auto token = in.text("licence_token", 4096)) { devices.licence_token = *token; }
  if (const auto nics = in.child("nics")) { devices.nics = decode_nics(*nics, diagnostics); }
  if (kind) { refuse_contradictions(in, devices); }
  in.finish();
  return devices;
}

const char* to_string(DeviceKind kind) {
  return device_kinds[static_cast<std::size_t>(kind)].c_str();
}
const char* to_string(NicKind kind) {
  return nic_kinds[static_cast<std::size_t>(kind)].c_str();
}

}  // namespace virtrain::harness
