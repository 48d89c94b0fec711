#include "vmctl/resources/devices/guids.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/devices/function_seat.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* no_guid = "00:00:00:00:00:00:00:00";

/// A port's policy in the words of the adapter's sysfs files and of ip.
struct Policy {
  const char* in_sysfs;
  const char* in_ip;
};
constexpr std::array policies = {Policy{"Up", "enable"}, Policy{"Down", "disable"}, Policy{"Follow", "auto"}};

/// GUID of the physical function; nothing where its port is not InfiniBand.
std::optional<std::string> infiniband_guid(const fs::path& physical) {
  for (const auto& adapter : entries_of(physical / "infiniband")) {
    if (read_value(adapter / "ports/1/link_layer") == "InfiniBand") {
      return read_value(adapter / "node_guid");
    }
  }
  return std::nullopt;
}

bool has_files(const FunctionSeat& seat) {
  return read_value(seat.folder / "node").has_value();
}

VfIdentity read_identity(const FunctionSeat& seat) {
  if (has_files(seat)) {
    return {*read_value(seat.folder / "node"), read_value(seat.folder / "port").value_or(no_guid),
            read_value(seat.folder / "policy").value_or("")};
  }
  if (seat.interface.empty()) { return {no_guid, no_guid, ""}; }
  const auto shown = run_checked({"ip", "link", "show", "dev", seat.interface}).out;
  return parse_ip_link(shown, seat.index).value_or(VfIdentity{no_guid, no_guid, ""});
}

void write_identity(const FunctionSeat& seat, const VfIdentity& identity) {
  if (has_files(seat)) {
    write_sysfs(seat.folder / "node", identity.node_guid);
    write_sysfs(seat.folder / "port", identity.port_guid);
    if (!identity.policy.empty()) { write_sysfs(seat.folder / "policy", identity.policy); }
    return;
  }
  const std::vector<std::string> vf{
      "ip", "link", "set", "dev", seat.interface, "vf", std::to_string(seat.index)};
  const auto set = [&](const std::string& what, const std::string& value) {
    auto command = vf;
    command.insert(command.end(), {what, value});
    run_checked(command);
  };
  set("node_guid", identity.node_guid);
  set("port_guid", identity.port_guid);
  for (const auto& policy : policies) {
    if (identity.policy == policy.in_sysfs) { set("state", policy.in_ip); }
  }
}

bool is_none(const std::string& guid) {
  return guid.find_first_not_of("0:x") == std::string::npos;
}

}  // namespace

std::optional<VfIdentity> parse_ip_link(const std::string& text, int index) {
  for (const auto& line : split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() < 2 || words[0] != "vf" || words[1] != std::to_string(index)) { continue; }
    const auto after = [&](std::string_view name) -> std::string {
      const auto at = std::find(words.begin(), words.end(), name);
      if (at == words.end() || at + 1 == words.end()) { return ""; }
      auto word = std::string(*(at + 1));
      if (word.ends_with(',')) { word.pop_back(); }
      return word;
    };
    VfIdentity found{after("NODE_GUID"), after("PORT_GUID"), ""};
    for (auto* guid : {&found.node_guid, &found.port_guid}) {
      if (guid->empty()) { *guid = no_guid; }
    }
    for (const auto& policy : policies) {
      if (after("link-state") == policy.in_ip) { found.policy = policy.in_sysfs; }
    }
    return found;
  }
  return std::nullopt;
}

std::string guid_of(const std::string& physical_guid, int index) {
  const auto digits = sha256(fmt::format("{} {}", physical_guid, index));
  std::string guid = "02";  // EUI-64: locally administered, of one port
  for (std::size_t i = 0; i < 7; ++i) { guid += ":" + digits.substr(2 * i, 2); }
  return guid;
}

std::optional<Effect> guids_effect(const DeviceGrant& grant, const fs::path& devices) {
  const auto physical = physical_function_of(devices, grant.address);
  if (physical.empty()) { return std::nullopt; }
  const auto own = infiniband_guid(devices / physical);
  const auto seat = find_seat(devices, grant.address);
  if (!own || !seat) { return std::nullopt; }
  if (!has_files(*seat) && seat->interface.empty()) {
    throw Error("give " + grant.address + " its GUIDs", ErrorCode::host_unable,
                fmt::format("{} has neither sriov/{}/node nor a network interface (load ib_ipoib)", physical,
                            seat->index));
  }
  const auto before = read_identity(*seat);
  if (!is_none(before.node_guid) && !is_none(before.port_guid)) { return std::nullopt; }
  const auto guid = guid_of(*own, seat->index);
  const Change<VfIdentity> change{before, {guid, guid, "Follow"}};
  return Effect{.kind = EffectKind::guids, .name = grant.address, .state = to_state(change)};
}

void set_guids(const Effect& effect, const fs::path& devices) {
  const auto wanted = from_state<Change<VfIdentity>>(effect.state).wanted;
  const auto seat = find_seat(devices, effect.name);
  if (!seat) {
    throw Error("give " + effect.name + " its GUIDs", ErrorCode::not_found, "it is not a virtual function");
  }
  write_identity(*seat, wanted);
  const auto now = read_identity(*seat);
  // Kernels before 5.5 take GUIDs and do not tell them.
  if (has_files(*seat) && now != wanted) {
    throw Error(
        "give " + effect.name + " its GUIDs", ErrorCode::io,
        fmt::format("asked for {}, it has {} and {}", wanted.node_guid, now.node_guid, now.port_guid));
  }
}

std::string guids_left(const Effect& effect, const fs::path& devices) {
  const auto seat = find_seat(devices, effect.name);
  if (!seat) { return ""; }
  const auto now = read_identity(*seat), wanted = from_state<Change<VfIdentity>>(effect.state).wanted;
  const bool ours = now.node_guid == wanted.node_guid || now.port_guid == wanted.port_guid;
  return ours ? "GUID " + wanted.node_guid : "";
}

void clear_guids(const Effect& effect, const fs::path& devices) {
  if (guids_left(effect, devices).empty()) { return; }
  write_identity(*find_seat(devices, effect.name), from_state<Change<VfIdentity>>(effect.state).before);
  if (!guids_left(effect, devices).empty()) {
    throw Error("take back the GUIDs of " + effect.name, ErrorCode::io, "it still has them");
  }
}

namespace {

std::vector<Effect> plan_guids(const DeviceGrant& grant) {
  std::vector<Effect> effects;
  if (is_made_for_each_vm(grant)) { return effects; }
  if (auto effect = guids_effect(grant)) { effects.push_back(std::move(*effect)); }
  return effects;
}

}  // namespace

const Handler guids_handler{.kind = EffectKind::guids,
                            .plan = plan_guids,
                            .make = [](const Effect& effect) { set_guids(effect); },
                            .left = [](const Effect& effect) { return guids_left(effect); },
                            .undo = [](const Effect& effect) { clear_guids(effect); },
                            .device = named_device};

}  // namespace virtrain::vmctl
