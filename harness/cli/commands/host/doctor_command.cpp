#include <fmt/format.h>
#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/user_folders.h"
#include "common/system/log.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "common/text/wrap.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_scenario.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/cli/slurm_allocation.h"
#include "harness/experiment/preflight.h"
#include "harness/hosts/anonymous.h"
#include "harness/hosts/at_once.h"
#include "harness/hosts/named_host.h"
#include "harness/plan/plan.h"
#include "harness/rules/validity.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/hosts.h"
#include "results/tables/render.h"
#include "vmctl/api/inventory.h"
#include "vmctl/api/leftover.h"
#include "vmctl/api/limits.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using results::cell;
using vmctl::HostDevice;
using vmctl::PciLink;

/// The value of this device; nothing if there is none.
template <typename Value>
const Value* of(const std::map<std::string, Value>& by_address, const HostDevice& device) {
  const auto found = by_address.find(device.function.address);
  return found == by_address.end() ? nullptr : &found->second;
}

std::string lease_text(const vmctl::DeviceListing& context, const HostDevice& device) {
  const auto* lease = of(context.leases, device);
  if (lease != nullptr) { return *lease; }
  return of(context.quarantined, device) == nullptr ? "" : "in quarantine";
}

/// "16.0 GT/s PCIe" ×16 as "16.0 GT/s x16".
std::string link_text(const PciLink& link) {
  return link.width == 0 ? ""
                         : fmt::format("{} x{}", link.speed.substr(0, link.speed.find(" PCIe")), link.width);
}

std::string link_cell_text(const vmctl::PciFunction& pci) {
  if (pci.link == pci.link_possible) { return link_text(pci.link); }
  return fmt::format("{} (of {})", link_text(pci.link), link_text(pci.link_possible));
}

std::string group_text(const vmctl::PciFunction& pci) {
  if (!pci.iommu_group) { return "none"; }
  const auto members = pci.iommu_group_members.size();
  return members < 2 ? std::to_string(*pci.iommu_group)
                     : fmt::format("{} (+{})", *pci.iommu_group, members - 1);
}

/// "below pci0000:16 / 0000:16:02.0, BARs of 16MiB 64GiB 32MiB, resets by flr bus".
std::string place_text(const vmctl::PciFunction& pci) {
  std::vector<std::string> parts;
  if (!pci.root_complex.empty()) {
    parts.push_back(fmt::format("below {}{}", pci.root_complex,
                                pci.bridges.empty() ? "" : " / " + join(pci.bridges, " / ")));
  }
  std::vector<std::string> sizes;
  for (const auto& bar : pci.bars) { sizes.push_back(format_size(bar.bytes)); }
  if (!sizes.empty()) { parts.push_back("BARs of " + join(sizes, " ")); }
  if (!pci.reset_methods.empty()) { parts.push_back("resets by " + join(pci.reset_methods, " ")); }
  if (!pci.driver_override.empty()) { parts.push_back("driver_override " + pci.driver_override); }
  if (pci.virtual_functions_possible > 0) {
    parts.push_back(fmt::format("{} of {} virtual functions on", pci.virtual_functions.size(),
                                pci.virtual_functions_possible));
  }
  if (!pci.physical_function.empty()) { parts.push_back("virtual function of " + pci.physical_function); }
  return join(parts, ", ");
}

std::string mig_text(const vmctl::GpuReport& report) {
  const auto word = [](bool on) { return on ? "on" : "off"; };
  const bool pending = report.mig_pending.value_or(*report.mig);
  return fmt::format("MIG is {}{}", word(*report.mig),
                     pending == *report.mig ? "" : fmt::format(", {} after the next reset", word(pending)));
}

/// Warnings for a reader before the device is lent.
std::vector<std::string> remarks(const HostDevice& device, const vmctl::DeviceListing& context) {
  const auto& pci = device.function;
  std::vector<std::string> lines{fmt::format("{} {}", pci.address, device.name)};
  const auto add = [&](const std::string& words) { lines.push_back("  " + words); };
  add(fmt::format("{}: {}", to_string(device.mechanism), device.mechanism_reason));
  if (const auto* reason = of(context.quarantined, device)) { add("in quarantine: " + *reason); }
  if (const auto place = place_text(pci); !place.empty()) { add(place); }
  if (pci.iommu_group_members.size() > 1) { add("its IOMMU group is " + join(pci.iommu_group_members, " ")); }
  for (const auto& user : device.users) { add("in use: " + in_words(user)); }
  if (!device.nvlink_peers.empty()) { add("NVLink to " + join(device.nvlink_peers, " ")); }
  if (const auto* report = of(context.reports, device); report != nullptr && report->mig) {
    add(mig_text(*report));
  }
  if (!device.mig_instances.empty()) { add("MIG instances: " + join(device.mig_instances, " ")); }
  for (const auto& vgpu : device.vgpus) { add("carries a vGPU: " + vgpu); }
  for (const auto& type : device.vgpu_types) {
    add(fmt::format("vGPU type {} ({}){}", type.id, type.name,
                    type.available_instances ? fmt::format(", {} left", *type.available_instances) : ""));
  }
  for (const auto& port : device.ports) {
    add(fmt::format("port {} {} {} {}{}", port.name, port.link_layer, port.state, port.rate,
                    port.interface.empty() || !port.mtu_bytes
                        ? ""
                        : fmt::format(", {} MTU {}", port.interface, *port.mtu_bytes)));
  }
  if (pci.reset_methods.empty()) {
    add("no reset method: a tenant's state could leak, so it is never assigned to a VM");
  }
  return lines;
}

json link_json(const PciLink& link) {
  return link.width == 0 ? json() : json{{"speed", link.speed}, {"width", link.width}};
}

json lists_json(const HostDevice& device) {
  json out{{"bars", json::array()},
           {"vgpu_types", json::array()},
           {"ports", json::array()},
           {"users", json::array()}};
  for (const auto& bar : device.function.bars) {
    out["bars"].push_back({{"index", bar.index},
                           {"bytes", bar.bytes},
                           {"is_64bit", bar.is_64bit},
                           {"is_prefetchable", bar.is_prefetchable}});
  }
  for (const auto& type : device.vgpu_types) {
    out["vgpu_types"].push_back(
        {{"id", type.id}, {"name", type.name}, {"available_instances", or_null(type.available_instances)}});
  }
  for (const auto& port : device.ports) {
    out["ports"].push_back({{"name", port.name},
                            {"interface", text_or_null(port.interface)},
                            {"state", port.state},
                            {"rate", port.rate},
                            {"link_layer", port.link_layer},
                            {"mtu_bytes", or_null(port.mtu_bytes)}});
  }
  for (const auto& user : device.users) {
    out["users"].push_back({{"pid", user.pid}, {"process", user.process}, {"path", user.path}});
  }
  return out;
}

json mig_json(const vmctl::GpuReport* report) {
  if (report == nullptr || !report->mig) { return nullptr; }
  return {{"enabled", *report->mig}, {"enabled_after_reset", or_null(report->mig_pending)}};
}

json device_json(const HostDevice& device, const vmctl::DeviceListing& context) {
  const auto& pci = device.function;
  const auto* lease = of(context.leases, device);
  const auto* quarantine = of(context.quarantined, device);
  json out = lists_json(device);
  out.update({{"address", pci.address},
              {"kind", to_string(device.device_class)},
              {"name", device.name},
              {"uuid", text_or_null(device.uuid)},
              {"vendor", pci.vendor},
              {"device", pci.device},
              {"class", pci.class_code},
              {"iommu_group", or_null(pci.iommu_group)},
              {"iommu_group_members", pci.iommu_group_members},
              {"numa_node", pci.numa_node < 0 ? json() : json(pci.numa_node)},
              {"root_complex", text_or_null(pci.root_complex)},
              {"bridges", pci.bridges},
              {"link", link_json(pci.link)},
              {"link_possible", link_json(pci.link_possible)},
              {"driver", text_or_null(pci.driver)},
              {"driver_override", text_or_null(pci.driver_override)},
              {"reset_methods", pci.reset_methods},
              {"power_state", text_or_null(pci.power_state)},
              {"mechanism", to_string(device.mechanism)},
              {"mechanism_reason", device.mechanism_reason},
              {"vgpus", device.vgpus},
              {"mig_instances", device.mig_instances},
              {"nvlink_peers", device.nvlink_peers},
              {"physical_function", text_or_null(pci.physical_function)},
              {"virtual_functions", pci.virtual_functions},
              {"virtual_functions_possible", pci.virtual_functions_possible},
              {"mig", mig_json(of(context.reports, device))},
              {"lease", lease == nullptr ? json() : json(*lease)},
              {"quarantine", quarantine == nullptr ? json() : json(*quarantine)}});
  return out;
}

/// `doctor --devices` for people: a line for each device, below it what does not fit into one.
results::Table devices_table(const vmctl::DeviceListing& listing) {
  results::Table table;
  table.columns = {{"address", "address"},
                   {"kind", "kind"},
                   {.key = "name", .head = "name", .wraps = true},
                   {"iommu_group", "group"},
                   {"numa_node", "NUMA"},
                   {"link", "link"},
                   {"driver", "driver"},
                   {"mechanism", "mechanism"},
                   {.key = "lease", .head = "lease", .hide_empty = true, .wraps = true}};
  for (const auto& device : listing.devices) {
    const auto& pci = device.function;
    table.rows.push_back({cell(pci.address), cell(to_string(device.device_class)), cell(device.name),
                          cell(group_text(pci)),
                          cell(pci.numa_node < 0 ? "-" : std::to_string(pci.numa_node)),
                          cell(link_cell_text(pci)), cell(pci.driver.empty() ? "-" : pci.driver),
                          cell(to_string(device.mechanism)), cell(lease_text(listing, device))});
    for (auto& line : remarks(device, listing)) { table.notes.push_back(std::move(line)); }
  }
  return table;
}

/// The same with every fact: a list of objects.
json devices_json(const vmctl::DeviceListing& listing) {
  json list = json::array();
  for (const auto& device : listing.devices) { list.push_back(device_json(device, listing)); }
  return list;
}

using nlohmann::json;

struct DoctorArguments {
  std::string scenario;
  std::string inventory = "/";
  std::string record;
  bool anonymous = false;
  std::string explained = {};  ///< id of a check, or "all"
  bool devices = false;
  HostsArguments hosts;
  SlurmArguments slurm;
  std::optional<Elevation> elevation = {};
  results::Format format = results::Format::table;
};

/// Vendors of management controllers, whose displays nobody takes for an accelerator.
constexpr const char* aspeed = "0x1a03";
constexpr const char* matrox = "0x102b";

/// `host` is of one of several; empty: it is the only one.
json finding_json(const Finding& f, const std::string& host) {
  json finding{{"id", f.id},
               {"severity", to_string(f.severity)},
               {"status", to_string(f.status)},
               {"found", f.found},
               {"fix", f.fix}};
  if (!host.empty()) { finding["host"] = host; }
  return finding;
}

/// Checks that only a trial can make, which no finding has yet: so that one list shows every id.
std::vector<Finding> checks_of_trials(const std::vector<Finding>& findings) {
  std::vector<Finding> found;
  for (const auto& rule : validity_rules()) {
    if (std::none_of(findings.begin(), findings.end(), [&](const auto& f) { return f.id == rule.id; })) {
      found.push_back(not_judged(rule, "judged at the end of each trial, where"));
    }
  }
  return found;
}

/// "ok", "skipped", or what comes of a failure.
const char* outcome(const Finding& finding) {
  return finding.status == CheckStatus::failed ? to_string(finding.severity) : to_string(finding.status);
}

/// Says as a clause how a failed check ends.
const char* consequence(Severity severity) {
  switch (severity) {
    case Severity::blocks:
      return "run refuses what needs it";
    case Severity::invalidates:
      return "figures do not count";
    case Severity::warns:
      return "figures may suffer";
    case Severity::notes:
      return "nothing is lost, and it is worth knowing";
  }
  return "";
}

/// Order of the findings: obstacles first, passed checks last.
int urgency(const Finding& finding) {
  if (finding.status == CheckStatus::failed) { return static_cast<int>(finding.severity); }
  return finding.status == CheckStatus::skipped ? 100 : 101;
}

/// Green: ok; red: blocks; yellow: to be looked at; dim: not judged.
const char* style(const Finding& finding) {
  switch (finding.status) {
    case CheckStatus::ok:
      return "\x1b[32m";
    case CheckStatus::failed:
      return blocks(finding) ? "\x1b[31m" : "\x1b[33m";
    case CheckStatus::skipped:
      return "\x1b[2m";
  }
  return "";
}

std::string coloured_outcome(const Finding& finding) {
  const auto words = fmt::format("{:<11}", outcome(finding));
  return colour_on_stdout() ? style(finding) + words + "\x1b[0m" : words;
}

void print_paragraph(const std::string& words) {
  fmt::print(std::cout, "{}\n", hang(words, screen_of_stdout().columns));
}

/// Columns before the words of an answer or a finding.
constexpr std::size_t before_words = 21;

/// One finding: its id, what comes of it, what was found and what to do.
void print_finding(const Finding& f) {
  const auto columns = screen_of_stdout().columns;
  fmt::print(std::cout, "{:<8} {} {}\n", f.id, coloured_outcome(f),
             hang(printable(f.found), columns, before_words));
  if (f.fix.empty()) { return; }
  fmt::print(std::cout, "{:<{}}{}\n", "", before_words,
             hang("fix: " + printable(f.fix), columns, before_words));
}

/// Failed checks come first; passed and skipped ones are shown where everything is.
void print_table(std::vector<Finding> findings, bool everything) {
  const auto elsewhere = std::erase_if(findings, [](const auto& f) { return !f.is_for_this_host; });
  const auto of_trials = checks_of_trials(findings).size();
  const auto failed = std::ranges::count(findings, CheckStatus::failed, &Finding::status);
  const auto others = findings.size() - static_cast<std::size_t>(failed);
  if (!everything) {
    std::erase_if(findings, [](const auto& f) { return f.status != CheckStatus::failed; });
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto& a, const auto& b) { return urgency(a) < urgency(b); });
  for (const auto& f : findings) { print_finding(f); }
  if (!findings.empty()) { fmt::print(std::cout, "\n"); }
  const auto passed = everything ? ""
                                 : fmt::format("{} no more to say (-v shows them), ",
                                               counted(others, "check has", "checks have"));
  print_paragraph(fmt::format("{}{} not apply here, {} made in trials; --explain ID tells more of one",
                              passed, counted(elsewhere, "does", "do"), counted(of_trials, "is", "are")));
}

/// The findings on a host and on its devices; on a recorded one those on its devices alone.
struct Examined {
  std::string host;  ///< one of several; empty: it is the only one
  vmctl::Inventory inventory;
  std::vector<Finding> of_network, of_host, of_devices;

  std::vector<Finding> all() const {
    auto findings = of_network;
    for (const auto* more : {&of_host, &of_devices}) {
      findings.insert(findings.end(), more->begin(), more->end());
    }
    return findings;
  }
};

void print_json(const std::vector<Examined>& hosts) {
  auto list = json::array();
  for (const auto& one : hosts) {
    const auto findings = one.all();
    for (const auto& f : findings) { list.push_back(finding_json(f, one.host)); }
    for (const auto& f : checks_of_trials(findings)) { list.push_back(finding_json(f, one.host)); }
  }
  fmt::print(std::cout, "{}\n", dump_json(list, 2));
}

/// For other programs: every check, each in one line.
results::Table findings_table(const std::vector<Examined>& hosts) {
  results::Table table;
  table.columns = {{"id", "check"},
                   {"severity", "severity"},
                   {"status", "status"},
                   {.key = "found", .head = "found", .wraps = true},
                   {.key = "fix", .head = "fix", .wraps = true}};
  const bool has_names = !hosts.empty() && !hosts.front().host.empty();
  if (has_names) { table.columns.insert(table.columns.begin(), {"host", "host"}); }
  for (const auto& one : hosts) {
    auto findings = one.all();
    const auto of_trials = checks_of_trials(findings);
    findings.insert(findings.end(), of_trials.begin(), of_trials.end());
    for (const auto& f : findings) {
      table.rows.push_back({results::cell(f.id), results::cell(to_string(f.severity)),
                            results::cell(to_string(f.status)), results::cell(f.found),
                            results::cell(f.fix)});
      if (has_names) { table.rows.back().insert(table.rows.back().begin(), results::cell(one.host)); }
    }
  }
  return table;
}

/// "no: what was found (ID); …", or what holds where nothing lacks.
void print_answer(const char* question, const std::vector<std::string>& lacking,
                  const std::string& otherwise) {
  const auto answer = lacking.empty() ? otherwise : "no: " + join(lacking, "; ");
  fmt::print(std::cout, "{:<{}}{}\n", question, before_words,
             hang(answer, screen_of_stdout().columns, before_words));
}

/// "no IOMMU groups (IOM-1)": the finding's first clause; the table below has it whole.
std::string with_id(const Finding& finding) {
  return fmt::format("{} ({})", printable(finding.found.substr(0, finding.found.find(": "))), finding.id);
}

bool is_failed(const Finding& finding, const std::vector<std::string>& ids) {
  return finding.status == CheckStatus::failed && contains(ids, finding.id);
}

/// "; it has 3 accelerators of other vendors (…), and 0000:2c:00.0 answers with ones only".
std::string words_on_other_accelerators(const vmctl::Inventory& inventory) {
  std::vector<std::string> others, dead;
  for (const auto& device : inventory.other_devices) {
    const auto& pci = device.function;
    if (pci.is_dead()) {
      dead.push_back(fmt::format("{} ({})", pci.address, printable(device.name)));
    } else if (pci.is_accelerator() && pci.vendor != aspeed && pci.vendor != matrox) {
      others.push_back(
          fmt::format("{} ({}, {})", pci.address, printable(device.name), vmctl::assignment_in_words(pci)));
    }
  }
  std::string words;
  if (!others.empty()) {
    words += fmt::format("; it has {} of other vendors, which virtrain neither trains on nor assigns: {}; {}",
                         counted(others.size(), "GPU or accelerator", "GPUs or accelerators"),
                         join(others, ", "), vmctl::works_with_other_gpus);
  }
  if (!dead.empty()) {
    words += fmt::format(
        "; {} {} with ones only, lost after a reset or from the bus, and {} gone until the host "
        "is switched off and on",
        join(dead, ", "), dead.size() == 1 ? "answers" : "answer", dead.size() == 1 ? "is" : "are");
  }
  return words;
}

/// Whether the host can lend GPUs, in plain words.
void answer_for_devices(const vmctl::Inventory& inventory, const std::vector<Finding>& devices) {
  std::vector<std::string> lacking;
  if (std::none_of(inventory.devices.begin(), inventory.devices.end(),
                   [](const auto& device) { return device.device_class == vmctl::DeviceClass::gpu; })) {
    lacking.push_back("the host has no NVIDIA GPU" + words_on_other_accelerators(inventory));
  }
  for (const auto& f : devices) {
    if (blocks(f) || is_failed(f, {"KVM-1", "KVM-2"})) { lacking.push_back(with_id(f)); }
  }
  print_answer("GPUs in VMs", lacking, "yes: no problems found");
}

/// Whether scenarios without GPUs run here, and whether what their VMs show can be compared.
void answer_for_vms(const std::vector<Finding>& host, const std::vector<Finding>& devices) {
  std::vector<std::string> blocking;
  for (const auto& f : host) {
    if (blocks(f)) { blocking.push_back(with_id(f)); }
  }
  auto uncounted = blocking;
  bool emulated = false;
  for (const auto& f : devices) {
    emulated = emulated || is_failed(f, {"KVM-1", "KVM-2"});
    if (is_failed(f, {"KVM-1", "KVM-2", "KVM-3"})) { uncounted.push_back(with_id(f)); }
  }
  print_answer("CPU scenarios run", {},
               !blocking.empty() ? "on bare metal only: " + join(blocking, "; ")
               : emulated        ? "yes, their VMs emulated, which is marked and never compared"
                                 : "yes");
  print_answer("VM figures count", uncounted, "yes: VMs run under KVM");
}

/// A row of a check, in words.
results::Table checks_table(const std::vector<std::pair<CheckDescription, const char*>>& rows) {
  results::Table table;
  table.columns = {
      {"id", "check"},           {.key = "holds", .head = "what has to hold", .wraps = true},
      {"severity", "otherwise"}, {.key = "applies_when", .head = "where it applies", .wraps = true},
      {"checked", "checked"},    {"source", "seen in"}};
  for (const auto& [row, made] : rows) {
    table.rows.push_back({results::cell(row.id), results::cell(row.holds),
                          results::cell(to_string(row.severity)), results::cell(row.applies_when),
                          results::cell(made), results::cell(row.source)});
  }
  return table;
}

/// The coordinator makes it: no host knows by itself what reaches the others.
const CheckDescription network_check{
    "HOST-1", Severity::blocks,
    "the bridge or NIC that a hosts file names for the network between hosts is there and up",
    "a hosts file names a network", ""};

Finding examine_network(vmctl::HostLooks& host, const vmctl::HostNetwork& network) {
  Finding finding{network_check.id, network_check.severity, CheckStatus::ok, {}, {}};
  if (network.kind == vmctl::HostNetworkKind::none) {
    finding.status = CheckStatus::skipped;
    finding.found = "checked where " + network_check.applies_when;
    finding.is_for_this_host = false;
    return finding;
  }
  try {
    const auto facts = host.look_at_network(network);
    finding.found = fmt::format("{} {}{}: MTU {} for nodes{}", to_string(network.kind), network.name,
                                facts.address.empty() ? "" : " at " + facts.address, facts.mtu,
                                facts.link_speed.empty() ? "" : ", " + facts.link_speed);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::host_unable) { throw; }  // the host itself has gone
    finding.status = CheckStatus::failed;
    finding.found = fmt::format("{} {}: {}", to_string(network.kind), network.name, error.message());
    finding.fix = "make it, or name another bridge or NIC in the hosts file (ip -br link lists them)";
  }
  return finding;
}

/// A row of a check, and when it is made.
using KnownCheck = std::pair<CheckDescription, const char*>;

/// All checks, those of trials last.
std::vector<KnownCheck> known_checks(vmctl::HostLooks& host) {
  std::vector<KnownCheck> rows;
  for (const auto& row : host.checks()) { rows.emplace_back(row, "before a run"); }
  rows.emplace_back(network_check, "before a run");
  for (const auto& rule : validity_rules()) { rows.emplace_back(description_of(rule), "in each trial"); }
  return rows;
}

/// The checks of this id. Error(usage) where there is none.
std::vector<KnownCheck> checks_of(const std::string& id, std::vector<KnownCheck> rows) {
  std::vector<std::string> ids;
  ids.reserve(rows.size());
  for (const auto& [row, made] : rows) { ids.emplace_back(row.id); }
  std::erase_if(rows, [&](const auto& row) { return row.first.id != id; });
  if (rows.empty()) {
    auto capitals = id;
    std::ranges::transform(capitals, capitals.begin(), [](unsigned char c) { return std::toupper(c); });
    const auto near = nearest_word(capitals, ids);
    throw Error("explain " + excerpt(id, 64), ErrorCode::usage,
                fmt::format("no check has that id{} (--explain all lists them)",
                            near ? "; did you mean " + *near + "?" : ""));
  }
  return rows;
}

Examined examined(vmctl::HostLooks& host, bool is_recorded, const vmctl::HostNetwork& network = {}) {
  Examined found{{}, host.inventory(false), {examine_network(host, network)}, {}, {}};
  if (!is_recorded) { found.of_host = host.examine(vmctl::best_mode(host.privileges())); }
  found.of_devices = host.examine_devices(std::nullopt);
  return found;
}

/// Tells what a check is for, and what it found here.
void explain(const DoctorArguments& arguments) {
  const auto host = open_host(arguments.inventory);
  auto rows = known_checks(*host);
  const bool all = arguments.explained == "all";
  if (all) {
    std::ranges::stable_sort(rows, {}, [](const auto& row) { return std::string_view(row.first.id); });
  } else {
    rows = checks_of(arguments.explained, std::move(rows));
  }
  if (all || arguments.format != results::Format::table) {
    fmt::print(std::cout, "{}", results::render(checks_table(rows), arguments.format, screen_of_stdout()));
    return;
  }
  for (const auto& [row, made] : rows) {
    print_paragraph(fmt::format("{}: {}.", row.id, row.holds));
    const std::string when = row.applies_when;
    print_paragraph(fmt::format("  Checked {}, {}{}. Where it does not hold, {}.", made,
                                when == "always" ? "" : "where ", when, consequence(row.severity)));
    if (!row.source.empty()) { print_paragraph("  Seen in " + row.source + "."); }
  }
  for (const auto& f : examined(*host, arguments.inventory != "/").all()) {
    if (f.id == arguments.explained) { print_finding(f); }
  }
}

void print_devices(const vmctl::DeviceListing& listing, results::Format format) {
  const bool has_ours = std::ranges::any_of(
      listing.devices, [](const auto& device) { return device.device_class != vmctl::DeviceClass::other; });
  if (!has_ours && format == results::Format::table) {
    fmt::print(std::cout, "no NVIDIA GPU and no RDMA adapter; scenarios with the cpu backend run\n");
  }
  if (!listing.devices.empty() || format != results::Format::table) {
    fmt::print(std::cout, "{}", results::render(devices_table(listing), format, screen_of_stdout()));
  }
}

void list_devices(const DoctorArguments& arguments) {
  const auto listing = open_host(arguments.inventory, arguments.elevation)->devices();
  for (const auto& words : listing.disagreements) { log::warning(words); }
  if (arguments.format == results::Format::json) {
    fmt::print(std::cout, "{}\n", dump_json(devices_json(listing), 2));
  } else {
    print_devices(listing, arguments.format);
  }
}

/// The same of each of several hosts.
void list_devices(std::vector<NamedHost>& hosts, const DoctorArguments& arguments) {
  auto list = json::array();
  const auto listings = at_once(hosts, [](NamedHost& one) { return one.host->devices(); });
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const auto& words : listings[i].disagreements) { log::warning(words, {{"host", hosts[i].name}}); }
    if (arguments.format == results::Format::json) {
      for (auto device : devices_json(listings[i])) {
        device["host"] = hosts[i].name;
        list.push_back(std::move(device));
      }
    } else {
      fmt::print(std::cout, "{}{}\n", i == 0 ? "" : "\n", hosts[i].name);
      print_devices(listings[i], arguments.format);
    }
  }
  if (arguments.format == results::Format::json) { fmt::print(std::cout, "{}\n", dump_json(list, 2)); }
}

void print_examined(const Examined& found, bool is_recorded, bool everything) {
  if (!is_recorded) { answer_for_vms(found.of_host, found.of_devices); }
  answer_for_devices(found.inventory, found.of_devices);
  for (const auto& f : found.of_network) {
    if (f.status != CheckStatus::skipped) {
      print_answer("Network of hosts", blocks(f) ? std::vector{with_id(f)} : std::vector<std::string>(),
                   "yes: " + printable(f.found));
    }
  }
  fmt::print(std::cout, "\n");
  print_table(found.all(), everything);
}

/// Bare metal needs cores and a trainer only, so a host on which nothing at all can run has no usable core.
bool can_run_something(const Examined& found) {
  return !found.inventory.cores.empty() && std::ranges::none_of(found.of_network, blocks);
}

/// Error(host_unable) where these hosts cannot run it together.
void check_scenario(const Scenario& scenario, const std::vector<NamedHost>& hosts,
                    const DoctorArguments& arguments) {
  const auto rooms = plan_hosts(hosts, scenario);
  const auto plan = make_plan(scenario, rooms);
  const auto mode = choose_mode(hosts, std::nullopt, scenario);
  check_hosts(hosts, rooms, scenario, plan, mode);
  if (arguments.format == results::Format::table) {
    fmt::print(std::cout, "{}: {} can run it, in mode {}\n", excerpt(arguments.scenario, 4096),
               hosts.size() == 1 ? "this host" : "these hosts", to_string(mode));
  }
}

void examine_hosts(const HostList& list, const std::optional<Scenario>& scenario,
                   const DoctorArguments& arguments, Cli& cli) {
  auto hosts = open_hosts(list, {}, arguments.hosts.skip_unreachable);
  if (arguments.devices) { return list_devices(hosts, arguments); }
  const auto found = at_once(hosts, [](NamedHost& one) {
    auto examined_there = examined(*one.host, false, one.network);
    examined_there.host = one.name;
    return examined_there;
  });
  if (arguments.format == results::Format::json) {
    print_json(found);
  } else if (arguments.format != results::Format::table) {
    fmt::print(std::cout, "{}", results::render(findings_table(found), arguments.format));
  } else {
    for (const auto& one : found) {
      fmt::print(std::cout, "{}{}\n", &one == found.data() ? "" : "\n", one.host);
      print_examined(one, false, cli.verbose);
    }
  }
  if (scenario) {
    if (arguments.format == results::Format::table) { fmt::print(std::cout, "\n"); }
    return check_scenario(*scenario, hosts, arguments);
  }
  if (!std::ranges::all_of(found, can_run_something)) {
    cli.exit_status = exit_status(ErrorCode::host_unable);
  }
}

/// Anonymous: what was read lies in a folder of the user's own until nothing in it tells whose machine it is.
void record(const DoctorArguments& arguments) {
  print_paragraph(fmt::format("{} will hold, for whoever gets it:", excerpt(arguments.record, 4096)));
  for (const auto& part : vmctl::recorded_parts) {
    print_paragraph(fmt::format("  {}: {}", part.begin, part.holds));
  }
  if (arguments.anonymous) { print_paragraph(fmt::format("  Anonymous: {}.", vmctl::anonymous_words)); }
  const auto host = open_host("/", arguments.elevation);
  const auto folder = std::filesystem::absolute(arguments.record).lexically_normal();
  if (!arguments.anonymous) {
    host->record(folder);
  } else {
    if (std::filesystem::exists(folder)) {
      throw Error("record this host", ErrorCode::bad_input,
                  folder.string() + " exists already (name a new folder)");
    }
    const PrivateFolder own("record this host", folder.parent_path());
    host->record(own.path() / "host");
    make_anonymous(own.path() / "host");
    std::filesystem::rename(own.path() / "host", folder);
  }
  fmt::print(std::cout,
             "{}: this host; use it elsewhere with plan, doctor, topology or diagnose --inventory\n",
             excerpt(arguments.record, 4096));
}

void examine(const DoctorArguments& arguments, Cli& cli) {
  std::optional<Scenario> scenario;  // first: a wrong file needs no examination
  if (!arguments.scenario.empty()) { scenario = load_scenario(scenario_path(arguments.scenario), true); }
  auto hosts = scenario ? hosts_of(*scenario, arguments.hosts.hosts) : hosts_of(arguments.hosts.hosts);
  const auto take = [&hosts](HostList allocated) { hosts = std::move(allocated); };
  if (const auto status = take_allocation(arguments.slurm, {.elevation = arguments.elevation}, take)) {
    cli.exit_status = *status;
    return;
  }
  if (!hosts.hosts.empty()) { return examine_hosts(hosts, scenario, arguments, cli); }
  if (!arguments.record.empty()) { return record(arguments); }
  if (arguments.devices) { return list_devices(arguments); }
  if (!arguments.explained.empty()) { return explain(arguments); }
  const bool is_recorded = arguments.inventory != "/";
  std::vector<NamedHost> here;
  here.push_back({"", {}, open_host(arguments.inventory, arguments.elevation)});
  const auto found = examined(*here.front().host, is_recorded);
  if (arguments.format == results::Format::json) {
    print_json({found});
  } else if (arguments.format != results::Format::table) {
    fmt::print(std::cout, "{}", results::render(findings_table({found}), arguments.format));
  } else {
    print_examined(found, is_recorded, cli.verbose);
  }
  if (scenario) { return check_scenario(*scenario, here, arguments); }
  if (!can_run_something(found)) { cli.exit_status = exit_status(ErrorCode::host_unable); }
}

}  // namespace

void add_doctor_command(Cli& cli) {
  auto* doctor = cli.app.add_subcommand(
      "doctor", "Examine this host, or several: what they can do, what is wrong, how to fix it");
  auto examined = std::make_shared<DoctorArguments>();
  auto* scenario = doctor
                       ->add_option("scenario", examined->scenario,
                                    "Also whether this scenario can run here (exit 4 if not)")
                       ->type_name("FILE")
                       ->check(not_empty());
  add_privileges_option(*doctor, examined->elevation);
  auto* hosts = add_hosts_options(*doctor, examined->hosts)
                    ->excludes("--privileges");  // the launcher's words say what it runs as
  add_slurm_options(*doctor, examined->slurm)->excludes(hosts);
  doctor->add_flag("--devices", examined->devices,
                   "List GPUs, RDMA adapters and NVSwitches instead: IOMMU group, link, driver, "
                   "who uses them, how a VM can get them");
  doctor
      ->add_option("--inventory", examined->inventory,
                   "A recorded host, a folder with its proc/ and sys/ files: its devices only")
      ->check(CLI::ExistingDirectory)
      ->excludes(scenario)
      ->excludes("--hosts");
  doctor
      ->add_option(
          "--record", examined->record,
          "Write what plans and checks read of this host into a new folder, for --inventory on another "
          "machine (root reads more); what it will hold is listed first")
      ->type_name("DIR")
      ->excludes("--inventory")
      ->excludes(scenario)
      ->excludes("--hosts");
  doctor
      ->add_flag("--anonymous", examined->anonymous,
                 "Record no serial number, UUID, address or name: others stand there, the same everywhere")
      ->needs("--record");
  doctor
      ->add_option("--explain", examined->explained,
                   "What one check is for and what it finds here; all: a list of all checks")
      ->type_name("ID")
      ->check(not_empty())
      ->excludes("--devices")
      ->excludes("--record")
      ->excludes(scenario)
      ->excludes("--hosts");
  add_format_option(*doctor, examined->format);
  doctor->footer(
      "Examples:\n  virtrain doctor\n  virtrain doctor -v                     what passed as well\n"
      "  virtrain doctor --explain IOM-1\n  virtrain doctor scenarios/dell-r750xa.yaml --format json\n"
      "  virtrain doctor --devices --format json\n  virtrain doctor --record r750xa\n  virtrain doctor "
      "--inventory r750xa\n  virtrain doctor --hosts hosts.yaml");
  doctor->callback([examined, &cli] { examine(*examined, cli); });
}

}  // namespace virtrain::harness
