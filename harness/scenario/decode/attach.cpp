
#include <fmt/format.h>

#include <set>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/hosts.h"
#include "harness/scenario/decode/sections.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_launcher_words = 64;

std::vector<std::string> decode_words(MapReader& in, Diagnostics& diagnostics) {
  const About about{
      .text =
          "Words that start a program on this machine, once the program's name is added: ssh, kubectl exec, "
          "chroot, any command; no shell of this host reads them",
      .example = Schema::array({"kubectl", "exec", "-i", "pod/trainer-0", "--"})};
  const auto field = in.child("launcher", about);
  if (!field) { return {}; }
  if (field->describes()) {
    (*field->schema)["type"] = "array";
    (*field->schema)["minItems"] = 1;
    (*field->schema)["maxItems"] = most_launcher_words;
    (*field->schema)["items"] = {
        {"type", "string"}, {"minLength", 1}, {"maxLength", most_launcher_word_bytes}};
    return {};
  }
  std::vector<std::string> words;
  for (const auto& item : read_list(*field, "launcher", 1, most_launcher_words, diagnostics)) {
    if (!item.node.IsScalar() || !is_launcher_word(item.node.Scalar())) {
      diagnostics.add(item.mark(),
                      "launcher: a word must be text of 1 to {} bytes without control characters",
                      most_launcher_word_bytes);
    }
    words.push_back(item.node.IsScalar() ? item.node.Scalar() : "");
    if (words.back().find(host_placeholder) != std::string::npos) {
      diagnostics.add(item.mark(), "launcher: {} stands for one of several hosts (write the machine's name)",
                      host_placeholder);
    }
  }
  return words;
}

AttachedMachine decode_machine(const Field& item, Diagnostics& diagnostics) {
  AttachedMachine machine;
  MapReader in(item, "attached machine", diagnostics);
  in.require("launcher");
  machine.launcher = decode_words(in, diagnostics);
  read_fields(in, machine);
  in.finish();
  return machine;
}

/// A machine that is not of the arm has no way to take a limit, a device or a neighbour from us.
void check_case(const Case& wanted, const Arm& arm, const YAML::Mark& mark, Diagnostics& diagnostics) {
  std::int64_t nodes = 0;
  for (const auto& tenant : wanted.tenants) { nodes += tenant.nodes; }
  const auto machines = std::ssize(arm.attached);
  if (nodes > machines) {
    diagnostics.add(mark, "arm {} attaches {}, and case {} has {} (attach more, or use fewer nodes)",
                    arm.name, counted(machines, "machine"), excerpt(wanted.name), counted(nodes, "node"));
  }
  for (const auto& tenant : wanted.tenants) {
    if (!vmctl::limits_text(tenant.limits).empty()) {
      diagnostics.add(mark,
                      "arm {} attaches machines, whose nodes cannot be limited (case {}: remove limits)",
                      arm.name, excerpt(wanted.name));
      return;
    }
  }
}

}  // namespace

std::vector<AttachedMachine> decode_attach(const Field& field, const std::string& arm,
                                           Diagnostics& diagnostics) {
  std::vector<AttachedMachine> machines;
  std::set<std::vector<std::string>> launchers;
  for (const auto& item : read_list(field, "attach", 1, most_attached, diagnostics)) {
    auto machine = decode_machine(item, diagnostics);
    if (item.describes()) { break; }
    machine.name = fmt::format("{}:{}", arm, machines.size() + 1);
    if (!machine.launcher.empty() && !launchers.insert(machine.launcher).second) {
      diagnostics.add(item.mark(),
                      "attach: two machines have the same launcher, and would be one machine twice");
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

void check_attached(MapReader& in, const Scenario& scenario, const std::vector<Variant>& variants,
                    Diagnostics& diagnostics) {
  for (std::size_t i = 0; i < scenario.arms.size() && i < variants.size(); ++i) {
    const auto& arm = scenario.arms[i];
    if (arm.attached.empty()) { continue; }
    for (const auto& wanted : arm.cases) { check_case(wanted, arm, variants[i].attach_mark, diagnostics); }
    const auto refuse = [&](const char* key, const char* why) {
      if (in.has(key)) { in.refuse(key, "{}: {} (arm {} attaches machines)", key, why, arm.name); }
    };
    refuse("isolation", "neighbours and victims need nodes of this host");
    refuse("hosts", "attached machines are started from this host alone");
    if (scenario.security) { refuse("security", "leak searches need nodes of this host"); }
    if (scenario.devices.kind != DeviceKind::none && is_all_attached(scenario)) {
      refuse("devices", "devices are those of this host, and machines that exist already get none");
    }
    return;
  }
}

}  // namespace virtrain::harness
