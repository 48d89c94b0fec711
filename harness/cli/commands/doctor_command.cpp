#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "harness/cli/commands.h"
#include "harness/cli/device_listing.h"
#include "harness/cli/host_inventory.h"
#include "harness/plan/plan.h"
#include "harness/rules/validity_rules.h"
#include "harness/scenario/decode.h"
#include "harness/trial/preflight.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/doctor.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/journal/leases.h"
#include "vmctl/machine/cross_check.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

struct DoctorArguments {
  std::string scenario;
  std::string inventory = "/";
  bool devices = false;
  results::Format format = results::Format::table;
};

json finding_json(const vmctl::Finding& f) {
  return {{"id", f.id},
          {"severity", vmctl::letter(f.severity)},
          {"status", to_string(f.status)},
          {"found", f.found},
          {"fix", f.fix}};
}

/// Checks that only a trial can make, which no finding has yet: so that one list shows every id.
std::vector<vmctl::Finding> checks_of_trials(const std::vector<vmctl::Finding>& findings) {
  std::vector<vmctl::Finding> found;
  for (const auto& rule : validity_rules()) {
    if (std::none_of(findings.begin(), findings.end(), [&](const auto& f) { return f.id == rule.id; })) {
      found.push_back({rule.id, rule.severity, vmctl::CheckStatus::skipped,
                       std::string("judged at the end of each trial, where ") + rule.applies_when, "",
                       false});
    }
  }
  return found;
}

std::vector<std::string> ids_of(const std::vector<vmctl::Finding>& findings) {
  std::vector<std::string> ids;
  ids.reserve(findings.size());
  for (const auto& f : findings) { ids.push_back(f.id); }
  return ids;
}

/// "ok", "skipped", or what comes of a failure.
const char* outcome(const vmctl::Finding& finding) {
  if (finding.status != vmctl::CheckStatus::failed) { return to_string(finding.status); }
  switch (finding.severity) {
    case vmctl::Severity::blocks:
      return "blocks";
    case vmctl::Severity::invalidates:
      return "invalidates";
    case vmctl::Severity::warns:
      return "warns";
    case vmctl::Severity::notes:
      return "notes";
  }
  return "";
}

void print_table(std::vector<vmctl::Finding> findings) {
  const auto of_trials = checks_of_trials(findings);
  for (const auto& f : findings) {
    if (!f.is_for_this_host) { continue; }
    fmt::print("{:<8} {:<11} {}\n", f.id, outcome(f), printable(f.found));
    if (!f.fix.empty()) { fmt::print("{:<8} {:<11} fix: {}\n", "", "", printable(f.fix)); }
  }
  std::erase_if(findings, [](const auto& f) { return f.is_for_this_host; });
  if (!findings.empty()) {
    fmt::print("\nDo not apply here (--format json says when they would): {}\n",
               join(ids_of(findings), ", "));
  }
  fmt::print("Judged at the end of each trial with devices: {}\n", join(ids_of(of_trials), ", "));
}

void print_json(const std::vector<vmctl::Finding>& findings) {
  auto list = json::array();
  for (const auto& f : findings) { list.push_back(finding_json(f)); }
  for (const auto& f : checks_of_trials(findings)) { list.push_back(finding_json(f)); }
  fmt::print("{}\n", dump_json(list, 2));
}

/// For other programs: every check, each in one line.
results::Table findings_table(std::vector<vmctl::Finding> findings) {
  const auto of_trials = checks_of_trials(findings);
  findings.insert(findings.end(), of_trials.begin(), of_trials.end());
  results::Table table;
  table.columns = {
      {"id", "check"}, {"severity", "severity"}, {"status", "status"}, {"found", "found"}, {"fix", "fix"}};
  for (const auto& f : findings) {
    table.rows.push_back({results::cell(f.id), results::cell(vmctl::letter(f.severity)),
                          results::cell(to_string(f.status)), results::cell(f.found), results::cell(f.fix)});
  }
  return table;
}

bool is_about_kvm(const vmctl::Finding& finding) {
  return finding.id == "KVM-1" || finding.id == "KVM-2";
}

/// Whether the host can lend GPUs, in plain words.
void print_device_summary(const vmctl::Inventory& inventory, const std::vector<vmctl::Finding>& devices) {
  std::vector<std::string> lacking;
  if (std::none_of(inventory.devices.begin(), inventory.devices.end(),
                   [](const auto& device) { return device.device_class == vmctl::DeviceClass::gpu; })) {
    lacking.emplace_back("it has no NVIDIA GPU");
  }
  for (const auto& f : devices) {
    if (vmctl::blocks(f) || (is_about_kvm(f) && f.status == vmctl::CheckStatus::failed)) {
      lacking.push_back(fmt::format("{} ({})", printable(f.found), f.id));
    }
  }
  fmt::print("\nGPUs in VMs: {}\n", lacking.empty() ? "nothing speaks against it"
                                                    : "not on this host as it is: " + join(lacking, "; "));
}

/// What else can run here.
void print_summary(const std::vector<vmctl::Finding>& host, const std::vector<vmctl::Finding>& devices) {
  std::vector<std::string> blocking;
  for (const auto& f : host) {
    if (vmctl::blocks(f)) { blocking.push_back(fmt::format("{} ({})", printable(f.found), f.id)); }
  }
  const bool emulated = std::any_of(devices.begin(), devices.end(), [](const auto& f) {
    return is_about_kvm(f) && f.status == vmctl::CheckStatus::failed;
  });
  if (blocking.empty()) {
    fmt::print("Scenarios with backend cpu run here{}.\n",
               emulated ? ", their VMs emulated, which is marked and never compared" : "");
  } else {
    fmt::print("Scenarios with backend cpu run here on bare metal only: {}\n", join(blocking, "; "));
  }
}

/// Who holds devices of this host now (a recorded host has no journal), and what nvidia-smi says of them.
DeviceContext device_context(const std::string& inventory) {
  DeviceContext context;
  context.reports = vmctl::read_host_words(inventory).gpus;
  if (inventory != "/") { return context; }
  const vmctl::LeaseJournal journal;
  for (const auto& [address, owner] : journal.device_owners()) {
    context.leases[address] =
        fmt::format("{} (pid {}{})", owner.experiment, owner.pid, vmctl::is_alive(owner) ? "" : ", dead");
  }
  for (const auto& device : journal.quarantined()) {
    context.quarantined[device.address] = fmt::format("{} (since {})", device.reason, device.since);
  }
  return context;
}

/// What libvirt thinks otherwise, where a daemon runs.
std::vector<std::string> libvirt_disagrees(const DoctorArguments& arguments,
                                           const std::vector<vmctl::HostDevice>& devices) {
  constexpr const char* uri = "qemu:///system";
  if (arguments.inventory != "/" || devices.empty() || !vmctl::libvirt_answers(uri)) { return {}; }
  return vmctl::disagreements(devices, vmctl::connect_libvirt(uri)->pci_devices());
}

void list_devices(const DoctorArguments& arguments) {
  auto devices = vmctl::read_host_devices(arguments.inventory).devices;
  vmctl::find_users(arguments.inventory, devices);
  const auto context = device_context(arguments.inventory);
  for (const auto& words : libvirt_disagrees(arguments, devices)) { log::warning(words); }
  if (arguments.format == results::Format::json) {
    fmt::print("{}\n", dump_json(devices_json(devices, context), 2));
  } else if (devices.empty() && arguments.format == results::Format::table) {
    fmt::print("no NVIDIA GPU and no RDMA adapter; scenarios with the cpu backend run\n");
  } else {
    fmt::print("{}", results::render(devices_table(devices, context), arguments.format, colour_on_stdout()));
  }
}

void examine(const DoctorArguments& arguments, Cli& cli) {
  if (arguments.devices) { return list_devices(arguments); }
  const auto inventory = vmctl::load_inventory(arguments.inventory);
  const bool is_recorded = arguments.inventory != "/";
  const auto host = is_recorded ? std::vector<vmctl::Finding>()
                                : vmctl::examine_host(inventory, vmctl::best_mode(vmctl::try_privileges()));
  const auto devices = vmctl::examine_devices(inventory, arguments.inventory);
  auto findings = host;
  findings.insert(findings.end(), devices.begin(), devices.end());
  if (arguments.format == results::Format::json) {
    print_json(findings);
  } else if (arguments.format != results::Format::table) {
    fmt::print("{}", results::render(findings_table(findings), arguments.format, false));
  } else {
    print_table(findings);
    print_device_summary(inventory, devices);
    if (!is_recorded) { print_summary(host, devices); }
  }
  if (arguments.scenario.empty()) {
    // Bare metal needs cores and a trainer only, so a host on which nothing at all can run has no usable
    // core.
    if (inventory.cores.empty()) { cli.exit_status = exit_status(ErrorCode::host_unable); }
    return;
  }
  const auto scenario = load_scenario(arguments.scenario);
  const auto as_it_is = host_inventory(scenario, "/");
  const auto plan = make_plan(scenario, as_it_is, expects_emulation(as_it_is));
  const auto mode = choose_mode(std::nullopt, scenario);
  check_host(scenario, plan, as_it_is, mode);
  if (arguments.format == results::Format::table) {
    fmt::print("{}: this host can run it, in mode {}\n", arguments.scenario, to_string(mode));
  }
}

}  // namespace

void add_doctor_command(Cli& cli) {
  auto* doctor =
      cli.app.add_subcommand("doctor", "Examine this host: what it can do, what is wrong, how to mend it");
  auto examined = std::make_shared<DoctorArguments>();
  auto* scenario = doctor->add_option("scenario", examined->scenario,
                                      "Also whether this scenario can run here (exit 4 if not)");
  doctor->add_flag("--devices", examined->devices,
                   "List GPUs, RDMA adapters and NVSwitches instead: IOMMU group, link, driver, "
                   "who uses them, how a VM can get them");
  doctor
      ->add_option("--inventory", examined->inventory,
                   "A recorded host, a folder with its proc/ and sys/ files: its devices only")
      ->check(CLI::ExistingDirectory)
      ->excludes(scenario);
  add_format_option(*doctor, examined->format);
  doctor->footer(
      "Examples:\n  virtrain doctor\n  virtrain doctor scenarios/dell-r750xa.yaml --format json\n"
      "  virtrain doctor --devices --format json\n  virtrain doctor --inventory r750xa");
  doctor->callback([examined, &cli] { examine(*examined, cli); });
}

}  // namespace virtrain::harness
