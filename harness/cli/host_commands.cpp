#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "harness/cli/commands.h"
#include "harness/cli/device_listing.h"
#include "harness/execute/preflight.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode.h"
#include "results/store/store.h"
#include "vmctl/cleanup.h"
#include "vmctl/devices/cross_check.h"
#include "vmctl/doctor.h"
#include "vmctl/inventory.h"
#include "vmctl/leases.h"
#include "vmctl/libvirt_daemon.h"
#include "vmctl/libvirt_hypervisor.h"

namespace virtrain::harness {
namespace {

constexpr int kSomethingLeft = 6;

struct CleanArguments {
  bool verify = false;
  std::string connect_uri;  ///< empty: the system's, or the user's own session where that is out of reach
};

struct DoctorArguments {
  std::string scenario;
  std::string inventory = "/";
  bool devices = false;
  results::Format format = results::Format::table;
};

// --- doctor

void print_findings(const std::vector<vmctl::Finding>& findings, results::Format format) {
  if (format == results::Format::json) {
    auto list = nlohmann::json::array();
    for (const auto& f : findings)
      list.push_back({{"id", f.id},
                      {"severity", to_string(f.severity)},
                      {"status", to_string(f.status)},
                      {"found", f.found},
                      {"fix", f.fix}});
    fmt::print("{}\n", list.dump(2));
    return;
  }
  std::vector<std::string> elsewhere;
  for (const auto& f : findings) {
    if (!f.is_for_this_host) {
      elsewhere.push_back(f.id);
      continue;
    }
    fmt::print("{:<8} {:<11} {:<8} {}\n", f.id, to_string(f.severity), to_string(f.status), f.found);
    if (!f.fix.empty()) fmt::print("{:<8} {:<11} {:<8} fix: {}\n", "", "", "", f.fix);
  }
  if (!elsewhere.empty())
    fmt::print("{}: for other hosts (--format json says which)\n", join(elsewhere, ", "));
}

/// Who holds devices of this host now; a recorded host has no journal.
DeviceLeases device_leases(const std::string& inventory) {
  DeviceLeases leases;
  if (inventory != "/") return leases;
  for (const auto& [address, owner] : vmctl::LeaseJournal().device_owners())
    leases[address] =
        fmt::format("{} (pid {}{})", owner.experiment, owner.pid, vmctl::is_alive(owner) ? "" : ", dead");
  return leases;
}

/// What libvirt thinks otherwise, where a daemon runs.
std::vector<std::string> libvirt_disagrees(const DoctorArguments& arguments,
                                           const std::vector<vmctl::HostDevice>& devices) {
  constexpr const char* kUri = "qemu:///system";
  if (arguments.inventory != "/" || devices.empty() || !vmctl::libvirt_answers(kUri)) return {};
  return vmctl::disagreements(devices, vmctl::connect_libvirt(kUri)->pci_devices());
}

void list_devices(const DoctorArguments& arguments) {
  auto devices = vmctl::read_host_devices(arguments.inventory);
  vmctl::find_users(arguments.inventory, devices);
  const auto leases = device_leases(arguments.inventory);
  for (const auto& words : libvirt_disagrees(arguments, devices)) log::warning(words);
  if (arguments.format == results::Format::json)
    fmt::print("{}\n", devices_json(devices, leases).dump(2));
  else
    fmt::print("{}", results::render(devices_table(devices, leases), arguments.format, colour_on_stdout()));
}

void examine(const DoctorArguments& arguments, Cli& cli) {
  if (arguments.devices) return list_devices(arguments);
  const auto inventory = vmctl::load_inventory();
  print_findings(vmctl::examine_all(inventory), arguments.format);
  if (arguments.scenario.empty()) {
    // Bare metal needs cores and a trainer only, so a host on which nothing at all can run has no usable
    // core.
    if (inventory.cores.empty()) cli.exit_status = exit_status(ErrorCode::host_unable);
    return;
  }
  const auto scenario = load_scenario(arguments.scenario);
  make_plan(scenario, inventory, expects_emulation(inventory));
  check_host(scenario, inventory, "qemu:///system");
  if (arguments.format == results::Format::table)
    fmt::print("{}: this host can run it\n", arguments.scenario);
}

// --- clean

void print_leftovers(const char* heading, const std::vector<vmctl::Leftover>& leftovers) {
  for (const auto& l : leftovers)
    fmt::print("{}: {} {}{} ({})\n", heading, to_string(l.kind), l.name,
               l.experiment.empty() ? "" : " of " + l.experiment, l.detail);
}

void mark_interrupted(const std::vector<std::pair<std::string, std::string>>& experiments) {
  for (const auto& [database, experiment] : experiments) {
    try {
      results::Store store(database, results::Store::Mode::open);
      if (store.mark_interrupted(experiment))
        fmt::print("interrupted: experiment {} in {}\n", experiment, database);
    } catch (const Error& error) {
      log::warning("an interrupted experiment could not be marked",
                   {{"experiment", experiment}, {"reason", error.what()}});
    }
  }
}

std::string libvirt_to_clean(const CleanArguments& arguments) {
  if (!arguments.connect_uri.empty()) return arguments.connect_uri;
  const bool system = ::geteuid() == 0 || vmctl::libvirt_answers("qemu:///system");
  return system ? "qemu:///system" : "qemu:///session";
}

void clean(const CleanArguments& arguments, Cli& cli) {
  const auto uri = libvirt_to_clean(arguments);
  std::unique_ptr<vmctl::LibvirtDaemon> daemon;
  std::unique_ptr<vmctl::Hypervisor> hypervisor;
  try {
    if (::geteuid() == 0 && uri == "qemu:///system") daemon = std::make_unique<vmctl::LibvirtDaemon>();
    hypervisor = vmctl::connect_libvirt(uri);
  } catch (const Error& error) {
    log::warning("libvirt is not looked at", {{"reason", error.what()}});
  }
  vmctl::LeaseJournal journal;
  auto view = vmctl::find_leftovers(hypervisor.get(), &journal);
  print_leftovers("foreign, not touched", view.foreign);
  if (arguments.verify) {
    print_leftovers("left over", view.leftovers);
    if (view.leftovers.empty())
      fmt::print("nothing is left over\n");
    else
      cli.exit_status = kSomethingLeft;
    return;
  }
  const auto result = vmctl::clean(view, hypervisor.get(), &journal);
  print_leftovers("removed", result.removed);
  for (const auto& [leftover, reason] : result.failed)
    fmt::print("not removed: {} {}: {}\n", to_string(leftover.kind), leftover.name, reason);
  mark_interrupted(result.interrupted_experiments);
  if (result.removed.empty() && result.failed.empty()) fmt::print("nothing is left over\n");
  if (!result.failed.empty()) cli.exit_status = kSomethingLeft;
}

}  // namespace

void add_host_commands(Cli& cli) {
  auto* doctor =
      cli.app.add_subcommand("doctor", "Examine this host: what it can do, what is wrong, how to mend it");
  auto examined = std::make_shared<DoctorArguments>();
  doctor->add_option("scenario", examined->scenario,
                     "Also whether this scenario can run here (exit 4 if not)");
  auto* devices =
      doctor->add_flag("--devices", examined->devices,
                       "List GPUs, RDMA adapters and NVSwitches instead: IOMMU group, link, driver, "
                       "who uses them, how a VM can get them");
  doctor->add_option("--inventory", examined->inventory, "With --devices: a recorded host")
      ->check(CLI::ExistingDirectory)
      ->needs(devices);
  add_format_option(*doctor, examined->format);
  doctor->footer(
      "Examples:\n  virtrain doctor\n  virtrain doctor scenarios/dell-r750xa.yaml --format json\n"
      "  virtrain doctor --devices --format json");
  doctor->callback([examined, &cli] { examine(*examined, cli); });

  auto* cleaner = cli.app.add_subcommand(
      "clean", "Remove what killed runs left behind; mark their experiments interrupted");
  auto cleaned = std::make_shared<CleanArguments>();
  cleaner->add_flag("--verify", cleaned->verify,
                    "Only look: exit 0 if nothing is left, 6 with the list if something is");
  cleaner
      ->add_option(
          "--connect", cleaned->connect_uri,
          "libvirt URI (default: qemu:///system, or a user's qemu:///session where that is out of reach)")
      ->type_name("URI");
  cleaner->footer("Examples:\n  virtrain clean --verify\n  virtrain clean");
  cleaner->callback([cleaned, &cli] { clean(*cleaned, cli); });
}

}  // namespace virtrain::harness
