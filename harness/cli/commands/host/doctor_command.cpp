#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "common/text/wrap.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/device_listing.h"
#include "harness/cli/help/choices.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/experiment/preflight.h"
#include "harness/plan/plan.h"
#include "harness/rules/validity_rules.h"
#include "harness/scenario/decode/decode.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

struct DoctorArguments {
  std::string scenario;
  std::string inventory = "/";
  std::string record;
  bool devices = false;
  results::Format format = results::Format::table;
};

/// Vendors of management controllers, whose displays nobody takes for an accelerator.
constexpr const char* aspeed = "0x1a03";
constexpr const char* matrox = "0x102b";

json finding_json(const Finding& f) {
  return {{"id", f.id},
          {"severity", to_string(f.severity)},
          {"status", to_string(f.status)},
          {"found", f.found},
          {"fix", f.fix}};
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

void print_table(std::vector<Finding> findings) {
  const auto elsewhere = std::erase_if(findings, [](const auto& f) { return !f.is_for_this_host; });
  const auto of_trials = checks_of_trials(findings).size();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto& a, const auto& b) { return urgency(a) < urgency(b); });
  const auto columns = screen_of_stdout().columns;
  constexpr std::size_t before_words = 21;
  for (const auto& f : findings) {
    fmt::print(std::cout, "{:<8} {} {}\n", f.id, coloured_outcome(f),
               hang(printable(f.found), columns, before_words));
    if (f.fix.empty()) { continue; }
    fmt::print(std::cout, "{:<{}}{}\n", "", before_words,
               hang("fix: " + printable(f.fix), columns, before_words));
  }
  fmt::print(std::cout, "\n");
  print_paragraph(fmt::format("{} not apply here, {} made in trials (--format csv lists all)",
                              counted(elsewhere, "more check does", "more checks do"),
                              counted(of_trials, "is", "are")));
}

void print_json(const std::vector<Finding>& findings) {
  auto list = json::array();
  for (const auto& f : findings) { list.push_back(finding_json(f)); }
  for (const auto& f : checks_of_trials(findings)) { list.push_back(finding_json(f)); }
  fmt::print(std::cout, "{}\n", dump_json(list, 2));
}

/// For other programs: every check, each in one line.
results::Table findings_table(std::vector<Finding> findings) {
  const auto of_trials = checks_of_trials(findings);
  findings.insert(findings.end(), of_trials.begin(), of_trials.end());
  results::Table table;
  table.columns = {
      {"id", "check"}, {"severity", "severity"}, {"status", "status"}, {"found", "found"}, {"fix", "fix"}};
  for (const auto& f : findings) {
    table.rows.push_back({results::cell(f.id), results::cell(to_string(f.severity)),
                          results::cell(to_string(f.status)), results::cell(f.found), results::cell(f.fix)});
  }
  return table;
}

bool is_about_kvm(const Finding& finding) {
  return finding.id == "KVM-1" || finding.id == "KVM-2";
}

/// "; it has 3 accelerators of other vendors (…), and 0000:2c:00.0 answers with ones only".
std::string words_on_other_accelerators(const vmctl::Inventory& inventory) {
  std::vector<std::string> others, dead;
  for (const auto& device : inventory.other_devices) {
    const auto& pci = device.function;
    if (pci.is_dead()) {
      dead.push_back(pci.address);
    } else if (pci.is_accelerator() && pci.vendor != aspeed && pci.vendor != matrox) {
      others.push_back(fmt::format("{} ({})", pci.address, printable(device.name)));
    }
  }
  std::string words;
  if (!others.empty()) {
    words +=
        fmt::format("; it has {} of other vendors, which virtrain cannot train on: {}",
                    counted(others.size(), "GPU or accelerator", "GPUs or accelerators"), join(others, ", "));
  }
  if (!dead.empty()) {
    words += fmt::format("; {} {} with ones only and {} lost until the host is switched off and on",
                         join(dead, ", "), dead.size() == 1 ? "answers" : "answer",
                         dead.size() == 1 ? "is" : "are");
  }
  return words;
}

/// Whether the host can lend GPUs, in plain words.
void print_device_summary(const vmctl::Inventory& inventory, const std::vector<Finding>& devices) {
  std::vector<std::string> lacking;
  if (std::none_of(inventory.devices.begin(), inventory.devices.end(),
                   [](const auto& device) { return device.device_class == vmctl::DeviceClass::gpu; })) {
    lacking.push_back("it has no NVIDIA GPU" + words_on_other_accelerators(inventory));
  }
  for (const auto& f : devices) {
    if (blocks(f) || (is_about_kvm(f) && f.status == CheckStatus::failed)) {
      lacking.push_back(fmt::format("{} ({})", printable(f.found), f.id));
    }
  }
  print_paragraph("GPUs in VMs: " + (lacking.empty() ? "no problems found"
                                                     : "not on this host as it is: " + join(lacking, "; ")));
}

/// Prints the kinds of scenario that can run here.
void print_summary(const std::vector<Finding>& host, const std::vector<Finding>& devices) {
  std::vector<std::string> blocking;
  for (const auto& f : host) {
    if (blocks(f)) { blocking.push_back(fmt::format("{} ({})", printable(f.found), f.id)); }
  }
  const bool emulated = std::any_of(devices.begin(), devices.end(), [](const auto& f) {
    return is_about_kvm(f) && f.status == CheckStatus::failed;
  });
  print_paragraph("Scenarios with backend cpu run here" +
                  (!blocking.empty() ? " on bare metal only: " + join(blocking, "; ")
                   : emulated        ? ", their VMs emulated, which is marked and never compared."
                                     : "."));
}

void list_devices(const DoctorArguments& arguments) {
  const auto listing = open_host(arguments.inventory)->devices();
  for (const auto& words : listing.disagreements) { log::warning(words); }
  if (arguments.format == results::Format::json) {
    fmt::print(std::cout, "{}\n", dump_json(devices_json(listing), 2));
    return;
  }
  const bool has_ours = std::ranges::any_of(
      listing.devices, [](const auto& device) { return device.device_class != vmctl::DeviceClass::other; });
  if (!has_ours && arguments.format == results::Format::table) {
    fmt::print(std::cout, "no NVIDIA GPU and no RDMA adapter; scenarios with the cpu backend run\n");
  }
  if (!listing.devices.empty() || arguments.format != results::Format::table) {
    fmt::print(std::cout, "{}",
               results::render(devices_table(listing), arguments.format, screen_of_stdout()));
  }
}

/// Error(host_unable) where this host cannot run it.
void check_scenario(const Scenario& scenario, const DoctorArguments& arguments) {
  const auto host = open_host();
  const auto inventory = host->inventory(scenario.devices.kind != DeviceKind::none);
  const auto plan = make_plan(scenario, inventory, expects_emulation(inventory));
  const auto mode = choose_mode(*host, std::nullopt, scenario);
  check_host(*host, scenario, plan, inventory, mode);
  if (arguments.format == results::Format::table) {
    fmt::print(std::cout, "{}: this host can run it, in mode {}\n", excerpt(arguments.scenario, 4096),
               to_string(mode));
  }
}

void examine(const DoctorArguments& arguments, Cli& cli) {
  std::optional<Scenario> scenario;  // first: a wrong file needs no examination
  if (!arguments.scenario.empty()) { scenario = load_scenario(scenario_path(arguments.scenario), true); }
  if (!arguments.record.empty()) {
    open_host()->record(arguments.record);
    fmt::print(std::cout, "{}: this host; use it elsewhere with plan, doctor or topology --inventory\n",
               excerpt(arguments.record, 4096));
    return;
  }
  if (arguments.devices) { return list_devices(arguments); }
  const auto examined = open_host(arguments.inventory);
  const auto inventory = examined->inventory(false);
  const bool is_recorded = arguments.inventory != "/";
  const auto of_host = is_recorded ? std::vector<Finding>()
                                   : examined->examine(inventory, vmctl::best_mode(examined->privileges()));
  const auto devices = examined->examine_devices(inventory);
  auto findings = of_host;
  findings.insert(findings.end(), devices.begin(), devices.end());
  if (arguments.format == results::Format::json) {
    print_json(findings);
  } else if (arguments.format != results::Format::table) {
    fmt::print(std::cout, "{}", results::render(findings_table(findings), arguments.format));
  } else {
    print_device_summary(inventory, devices);
    if (!is_recorded) { print_summary(of_host, devices); }
    fmt::print(std::cout, "\n");
    print_table(findings);
  }
  if (scenario) { return check_scenario(*scenario, arguments); }
  // Bare metal needs cores and a trainer only, so a host on which nothing at all can run has no usable core.
  if (inventory.cores.empty()) { cli.exit_status = exit_status(ErrorCode::host_unable); }
}

}  // namespace

void add_doctor_command(Cli& cli) {
  auto* doctor =
      cli.app.add_subcommand("doctor", "Examine this host: what it can do, what is wrong, how to mend it");
  auto examined = std::make_shared<DoctorArguments>();
  auto* scenario = doctor
                       ->add_option("scenario", examined->scenario,
                                    "Also whether this scenario can run here (exit 4 if not)")
                       ->type_name("FILE")
                       ->check(not_empty());
  doctor->add_flag("--devices", examined->devices,
                   "List GPUs, RDMA adapters and NVSwitches instead: IOMMU group, link, driver, "
                   "who uses them, how a VM can get them");
  doctor
      ->add_option("--inventory", examined->inventory,
                   "A recorded host, a folder with its proc/ and sys/ files: its devices only")
      ->check(CLI::ExistingDirectory)
      ->excludes(scenario);
  doctor
      ->add_option(
          "--record", examined->record,
          "Write what plans and checks read of this host into a new folder, for --inventory on another "
          "machine (root reads more)")
      ->type_name("DIR")
      ->excludes("--inventory")
      ->excludes(scenario);
  add_format_option(*doctor, examined->format);
  doctor->footer(
      "Examples:\n  virtrain doctor\n  virtrain doctor scenarios/dell-r750xa.yaml --format json\n"
      "  virtrain doctor --devices --format json\n  virtrain doctor --record r750xa\n  virtrain doctor "
      "--inventory r750xa");
  doctor->callback([examined, &cli] { examine(*examined, cli); });
}

}  // namespace virtrain::harness
