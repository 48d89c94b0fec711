#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include "common/error.h"
#include "common/files/file_hash.h"
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
#include "harness/hosts/named_host.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/hosts.h"
#include "results/exchange/records/exchange_columns.h"

namespace virtrain::harness {
namespace {

struct PlanArguments {
  ScenarioArguments scenario;
  std::vector<std::string> inventories;  ///< folders, or "NAME=FOLDER" each; empty: what answers now
  HostsArguments hosts;
  SlurmArguments slurm;
  std::filesystem::path database;
  results::Format format = results::Format::table;
  bool xml = false;
  bool trials = false;
};

void validate(const ScenarioArguments& arguments) {
  const auto scenario = load(arguments);
  for (const auto& warning : scenario.warnings) { log::warning(warning); }
  fmt::print(std::cout, "{}: valid: {}, {}, {}\n", excerpt(arguments.path, 4096),
             counted(scenario.cases.size(), "case"), counted(scenario.arms.size(), "arm"),
             counted(scenario.pairs, "pair"));
}

/// The hosts of a plan, recorded or asked.
struct PlannedHosts {
  std::vector<NamedHost> hosts;
  bool are_recorded = false;
};

/// "gpu-a=recorded/a", which is no path alone.
std::optional<std::pair<std::string, std::string>> named_inventory(const std::string& text) {
  const auto at = text.find('=');
  if (at == std::string::npos || !is_host_name(text.substr(0, at))) { return std::nullopt; }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

void require_folder(const std::string& folder) {
  if (std::filesystem::is_directory(folder)) { return; }
  throw Error("read --inventory", ErrorCode::usage,
              excerpt(folder, 4096) + " is not a folder (virtrain doctor --record DIR makes one)");
}

/// Recorded, they have the networks of the hosts of their names.
PlannedHosts recorded_hosts(const std::vector<std::string>& inventories, const HostList& listed) {
  std::map<std::string, std::string> folders;
  for (const auto& text : inventories) {
    auto named = named_inventory(text);
    if (!named && inventories.size() > 1) {
      throw Error("read --inventory", ErrorCode::usage,
                  fmt::format("'{}' names no host (several are given as NAME=DIR each)", excerpt(text, 200)));
    }
    if (!named) { named.emplace("", text); }
    require_folder(named->second);
    if (!folders.insert(*named).second) {
      throw Error("read --inventory", ErrorCode::usage, "host " + named->first + " is there twice");
    }
  }
  PlannedHosts recorded{{}, true};
  for (const auto& [name, folder] : folders) {
    const auto found = std::ranges::find(listed.hosts, name, &ListedHost::name);
    const auto network = found == listed.hosts.end() ? vmctl::HostNetwork() : found->network;
    recorded.hosts.push_back({name, network, open_host(folder)});
  }
  return recorded;
}

PlannedHosts open_planned(const PlanArguments& arguments, const Scenario& scenario) {
  if (!arguments.inventories.empty()) { return recorded_hosts(arguments.inventories, scenario.hosts); }
  PlannedHosts opened;
  if (scenario.hosts.hosts.empty()) {
    opened.hosts.push_back({"", {}, open_host()});
  } else {
    opened.hosts = open_hosts(scenario.hosts, {}, arguments.hosts.skip_unreachable);
  }
  return opened;
}

/// "quickstart on host node7 (32 cores, 256GiB, 4 GPUs, no usable KVM: VMs are emulated)"
std::string place_words(const Plan& plan, const std::vector<PlanHost>& hosts) {
  std::size_t cores = 0, gpus = 0;
  std::uint64_t memory = 0;
  std::vector<std::string> names;
  for (const auto& [name, inventory, emulated, network] : hosts) {
    cores += inventory.cores.size();
    memory += inventory.memory_bytes;
    gpus += static_cast<std::size_t>(
        std::ranges::count(inventory.devices, vmctl::DeviceClass::gpu, &vmctl::HostDevice::device_class));
    names.push_back(name.empty() ? printable(inventory.hostname) : name);
  }
  constexpr std::size_t few = 4;
  return fmt::format("{} on {} ({}, {}, {}{})", plan.scenario,
                     names.size() == 1    ? "host " + names[0]
                     : names.size() > few ? counted(names.size(), "host")
                                          : "hosts " + join(names, ", "),
                     counted(cores, "core"), format_size(memory), gpus == 0 ? "no GPU" : counted(gpus, "GPU"),
                     plan.emulated && plan.vm_boots > 0 ? ", no usable KVM: VMs are emulated" : "");
}

/// Warns of features that the mode of a `run` here lacks, and of what `run` refuses.
void say_what_these_hosts_give(const std::vector<NamedHost>& hosts, const std::vector<PlanHost>& rooms,
                               const Scenario& scenario, const Plan& plan, vmctl::HostMode mode) {
  const auto lacks = vmctl::what_it_lacks(mode);
  if (!lacks.empty()) {
    log::warning(fmt::format("{} mode {}, without {}", hosts.size() == 1 ? "this host gives" : "hosts give",
                             to_string(mode), lacks));
  }
  try {
    check_hosts(hosts, rooms, scenario, plan, mode);
  } catch (const Error& error) { log::warning("run refuses this plan here: " + error.message()); }
}

/// Warns about what `run` would refuse there, by the checks of a recorded host's devices.
void say_what_that_host_lacks(vmctl::HostLooks& host, const Scenario& scenario, const Plan& plan) {
  const auto demands = device_demands(plan, scenario);
  if (demands.empty()) { return; }
  for (const auto& finding : host.examine_devices(demands)) {
    if (!blocks(finding)) { continue; }
    log::warning(
        fmt::format("run refuses this plan there: {}: {} ({})", finding.id, finding.found, finding.fix));
  }
}

void print_plan(const PlanArguments& arguments, Cli& cli) {
  auto scenario = load(arguments.scenario);
  take_hosts(arguments.hosts, scenario);
  const auto take = [&scenario](HostList hosts) { set_hosts(scenario, std::move(hosts)); };
  if (const auto status = take_allocation(arguments.slurm, {}, take)) {
    cli.exit_status = *status;
    return;
  }
  const auto opened = open_planned(arguments, scenario);
  const auto& hosts = opened.hosts;
  const auto rooms = plan_hosts(hosts, scenario);
  auto plan = make_plan(scenario, rooms);
  std::optional<vmctl::HostMode> mode;  // a recorded host runs nothing
  if (!opened.are_recorded) {
    mode = choose_mode(hosts, std::nullopt, scenario);
    learn_from(arguments.database, scenario, place_of(plan, rooms), plan);
    look_for_image(*hosts.front().host, scenario, plan);
  }
  const bool as_json = arguments.format == results::Format::json;
  if (!as_json) {
    const auto place = place_words(plan, rooms) + (mode ? fmt::format(", mode {}", to_string(*mode)) : "");
    fmt::print(std::cout, "{}\n{}", hang(place, screen_of_stdout().columns),
               to_table(plan, arguments.trials));
  }
  if (mode) {
    say_what_these_hosts_give(hosts, rooms, scenario, plan, *mode);
  } else {
    auto next = hosts.begin();
    for_each_part(plan, rooms, [&](const PlanHost&, const Plan& part) {
      say_what_that_host_lacks(*next++->host, scenario, part);
    });
  }
  if (!as_json && !arguments.xml) { return; }
  std::vector<PlannedDomain> domains;
  if (arguments.xml) {
    PayloadDigests payloads;
    for (const auto& [path, of_hosts] : payload_paths(plan)) { payloads[path] = sha256_of_file(path); }
    domains = planned_domains(plan, payloads, [&](auto group, auto tenant, auto node, auto number) {
      const auto& name = group.tenants[tenant][node].host;
      const auto at = std::ranges::find(rooms, name, &PlanHost::name) - rooms.begin();
      const auto& host = hosts.at(static_cast<std::size_t>(at));
      group.network = host.network;
      return host.host->planned_xml(group, tenant, node, number,
                                    rooms[static_cast<std::size_t>(at)].emulated);
    });
  }
  if (!as_json) {
    fmt::print(std::cout, "{}", to_text(plan, domains));
    return;
  }
  auto json = to_json(plan);
  for (auto& [trial, tenant, node, xml] : domains) {
    json["trials"][trial]["tenants"][tenant]["nodes"][node]["xml"] = std::move(xml);
  }
  fmt::print(std::cout, "{}\n", dump_json(json, 2));
}

results::Table shipped_table() {
  results::Table table;
  table.columns = {{"name", "name"},
                   {"backend", "backend"},
                   {.key = "description", .head = "description", .wraps = true},
                   {"path", "path", false, true}};
  for (const auto& one : shipped_scenarios()) {
    using results::cell;
    table.rows.push_back(
        {cell(one.name), cell(one.backend), cell(one.description), results::silent_cell(one.path)});
  }
  if (table.rows.empty()) { table.notes.push_back("no scenarios are installed next to this program"); }
  return table;
}

}  // namespace

void add_scenario_commands(Cli& cli) {
  auto* check = cli.app.add_subcommand("validate", "Check a scenario file; nothing is done");
  auto checked = std::make_shared<ScenarioArguments>();
  add_scenario_arguments(*check, *checked)->required();
  check->footer("Example:\n  virtrain validate scenarios/quickstart.yaml");
  check->callback([checked] { validate(*checked); });

  auto* plan = cli.app.add_subcommand("plan", "Show what run would do: cases, placement, boots, time");
  auto arguments = std::make_shared<PlanArguments>();
  add_scenario_arguments(*plan, arguments->scenario)->required();
  auto* recorded = plan->add_option("--inventory", arguments->inventories,
                                    "Plan for a recorded host: a folder with its proc/ and sys/ files; for "
                                    "several NAME=DIR (may be repeated)")
                       ->type_name("DIR")
                       ->check(not_empty())
                       ->expected(1)
                       ->take_all();
  auto* hosts = add_hosts_options(*plan, arguments->hosts)->excludes(recorded);
  add_slurm_options(*plan, arguments->slurm)->excludes(recorded)->excludes(hosts);
  plan->add_option("--format", arguments->format, "table or json")
      ->transform(
          name_of<results::Format>({{"table", results::Format::table}, {"json", results::Format::json}}));
  plan->add_flag("--trials", arguments->trials, "A line a trial, in the order of the run");
  add_database_option(*plan, arguments->database);
  plan->add_flag("--xml", arguments->xml,
                 "Also the domain XML: each VM's in JSON, those of each case's first VM trial in the table");
  plan->footer(
      "Examples:\n  virtrain plan scenarios/quickstart.yaml\n  virtrain plan scenarios/dell-r750xa.yaml "
      "--inventory r750xa --format json\n  virtrain plan weak-scaling-hosts --inventory gpu-a=a --inventory "
      "gpu-b=b");
  plan->callback([arguments, &cli] { print_plan(*arguments, cli); });

  auto* shipped =
      cli.app.add_subcommand("scenarios", "List the scenarios that ship, which run takes by name");
  auto format = std::make_shared<results::Format>(results::Format::table);
  add_format_option(*shipped, *format);
  shipped->footer("Examples:\n  virtrain scenarios\n  virtrain run quickstart");
  shipped->callback([format] {
    fmt::print(std::cout, "{}", results::render(shipped_table(), *format, screen_of_stdout()));
  });

  auto* schema = cli.app.add_subcommand(
      "schema",
      "Print the JSON Schema of scenario files or hosts files, for editors, or of exchange records");
  auto of = std::make_shared<std::string>("scenario");
  schema->add_option("of", *of, "scenario, hosts, or exchange: a line of import's and export's jsonl")
      ->check(one_of({"scenario", "hosts", "exchange"}));
  schema->footer(
      "Examples:\n  virtrain schema > virtrain.schema.json\n  virtrain schema hosts > "
      "hosts.schema.json\n  virtrain schema exchange > exchange.schema.json");
  // More than a pipe holds: a reader that goes away is told to finish_output(), and not by an exception.
  schema->callback([of] {
    std::cout << (*of == "exchange" ? results::exchange_schema()
                  : *of == "hosts"  ? hosts_schema()
                                    : scenario_schema())
                     .dump(2)
              << '\n';
  });
}

}  // namespace virtrain::harness
