#include "harness/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/described_json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/baselines.h"
#include "harness/plan/host_room.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/plan/placer.h"
#include "harness/plan/security_placement.h"
#include "harness/plan/trial_seconds.h"
#include "harness/scenario/placeholders.h"

namespace virtrain::harness {
namespace {

/// A guest image that may be in the cache, or is built of the host's packages, without CUDA's and with them.
constexpr SecondsRange unknown_image{0, 60}, unknown_gpu_image{0, 180};
/// For the estimate only: one function to another driver.
constexpr double binding_seconds = 4.0;

/// Spelt out, for the library's shuffle gives another order on another machine.
void shuffle(std::vector<std::size_t>& arms, std::int64_t seed, std::int64_t round) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed) * 1'000'003U + static_cast<std::uint64_t>(round));
  for (std::size_t left = arms.size(); left > 1; --left) { std::swap(arms[left - 1], arms[random() % left]); }
}

/// Arms of pair k: as listed, and reversed in every second pair, so that drift hits both alike (ABBA); of
/// isolation at random, by the scenario's seed. With a seed for the order the first of each two pairs is
/// shuffled.
std::vector<std::size_t> order_of_arms(const Scenario& scenario, std::int64_t pair) {
  std::vector<std::size_t> arms(scenario.arms.size());
  std::iota(arms.begin(), arms.end(), 0);
  if (scenario.isolation) {
    shuffle(arms, scenario.isolation->seed, pair);
    return arms;
  }
  if (scenario.order_seed) { shuffle(arms, *scenario.order_seed, (pair + 1) / 2); }
  if (pair % 2 == 0) { std::reverse(arms.begin(), arms.end()); }
  return arms;
}

/// Places cases over hosts, each host's part by its own placer.
class HostPlacers {
 public:
  HostPlacers(const Scenario& scenario, const std::vector<PlanHost>& hosts) {
    for (const auto& host : hosts) {
      names_.push_back(host.name);
      // A host that is the only one has networks of its own.
      const auto network = hosts.size() == 1 ? vmctl::HostNetwork() : host.network;
      placers_.emplace_back(scenario, host.inventory, host.emulated, network);
    }
  }

  Placement place(const Case& wanted, bool in_vms);

  std::vector<Lack> problems() const { return all_of(&Placer::problems, problems_); }
  std::vector<Lack> busy() const { return all_of(&Placer::busy, {}); }
  std::vector<std::string> warnings() const;

 private:
  template <typename Words>
  std::vector<Lack> all_of(Words words, std::vector<Lack> all) const {
    for (std::size_t i = 0; i < placers_.size(); ++i) {
      for (auto one : (placers_[i].*words)()) {
        // Each host's largest lack is told.
        if (!one.resource.empty() && !names_[i].empty()) { one.resource += " of " + names_[i]; }
        add_once(all, one);
      }
    }
    return all;
  }

  std::vector<std::string> names_;
  std::vector<Placer> placers_;
  std::vector<Lack> problems_;  ///< of no host
};

std::vector<std::string> HostPlacers::warnings() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < placers_.size(); ++i) {
    for (const auto& words : placers_[i].warnings()) {
      add_once(all, placers_.size() == 1 ? words : names_[i] + ": " + words);
    }
  }
  return all;
}

Placement HostPlacers::place(const Case& wanted, bool in_vms) {
  if (placers_.size() == 1) { return placers_.front().place(wanted, in_vms); }
  auto shares = share_nodes(wanted, names_);
  for (auto& words : shares.problems) { add_once(problems_, Lack(std::move(words))); }
  if (!shares.problems.empty()) { return placers_.front().place(wanted, in_vms); }  // which no run will have
  Placement out{wanted.name, wanted.key, {}, false, wanted.guest, wanted.devices};
  out.tenants.resize(wanted.tenants.size());
  for (std::size_t h = 0; h < placers_.size(); ++h) {
    auto part = wanted;
    part.tenants.clear();
    std::vector<NodeNumber> numbers;
    for (std::size_t t = 0; t < wanted.tenants.size(); ++t) {
      if (shares.nodes[h][t] == 0) { continue; }
      part.tenants.push_back(wanted.tenants[t]);
      part.tenants.back().nodes = shares.nodes[h][t];
      numbers.push_back({t, std::ssize(out.tenants[t].nodes)});
    }
    if (part.tenants.empty()) { continue; }
    auto there = placers_[h].place(part, in_vms, numbers);
    out.oversubscribed = out.oversubscribed || there.oversubscribed;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      auto& tenant = out.tenants[numbers[i].tenant];
      auto before = std::move(tenant.nodes);
      tenant = std::move(there.tenants[i]);
      for (auto& node : tenant.nodes) { node.host = names_[h]; }
      std::ranges::move(tenant.nodes, std::back_inserter(before));
      tenant.nodes = std::move(before);
    }
  }
  return out;
}

/// Gives an arm's machines to the nodes of a case, in the order of both.
Placement place_on_machines(const Case& wanted, const Arm& arm) {
  Placement out{wanted.name, wanted.key, {}, false, wanted.guest, wanted.devices};
  out.is_attached = true;
  std::size_t next = 0;
  for (const auto& tenant : wanted.tenants) {
    const auto t = out.tenants.size();
    TenantPlacement placed{tenant.name, tenant.workload, tenant.gpus_per_node, tenant.ranks_per_node, 1, {}};
    placed.threads_per_rank = threads_per_rank(tenant, wanted.guest);
    out.oversubscribed = out.oversubscribed || tenant.ranks_per_node > wanted.guest.vcpus;
    for (std::int64_t n = 0; n < tenant.nodes; ++n) {
      NodePlacement node;
      node.hostname = node_name(t, n);
      node.memory_bytes = wanted.guest.memory_bytes;
      const auto& machine = arm.attached.at(next++);
      node.host = machine.name;
      node.address = machine.address;
      placed.nodes.push_back(std::move(node));
    }
    out.tenants.push_back(std::move(placed));
  }
  return out;
}

/// Places a case for each arm, once for those in which it is the same; returns each arm's placement.
std::vector<std::size_t> place_case(std::size_t index, const Scenario& scenario, HostPlacers& placer,
                                    std::vector<Placement>& placements) {
  std::vector<std::size_t> by_arm;
  for (std::size_t a = 0; a < scenario.arms.size(); ++a) {
    const auto& wanted = scenario.arms[a].cases[index];
    const auto& machines = scenario.arms[a].attached;
    const auto is_same = [&](const Arm& arm) {
      return arm.cases[index] == wanted && arm.attached == machines;
    };
    const auto first = static_cast<std::size_t>(
        std::find_if(scenario.arms.begin(), scenario.arms.end(), is_same) - scenario.arms.begin());
    if (first < a) {
      by_arm.push_back(by_arm[first]);
      continue;
    }
    by_arm.push_back(placements.size());
    if (!machines.empty()) {
      placements.push_back(place_on_machines(wanted, scenario.arms[a]));
      continue;
    }
    const bool in_vms = std::any_of(scenario.arms.begin(), scenario.arms.end(),
                                    [&](const Arm& arm) { return runs_in_vms(arm.base) && is_same(arm); });
    placements.push_back(placer.place(wanted, in_vms));
  }
  return by_arm;
}

/// Conditions differ in what the neighbour does and in nothing else, so the victim waits alike in all.
void wait_alike(const std::vector<std::size_t>& by_arm, std::vector<Placement>& placements) {
  const bool shared = std::ranges::any_of(by_arm, [&](auto p) { return placements[p].oversubscribed; });
  for (const auto p : by_arm) { placements[p].ranks_sleep = shared; }
}

/// Each once: the arms of a case have much in common.
template <typename One, typename Same>
void add_new(const std::vector<One>& words, std::vector<Same>& all) {
  for (const auto& one : words) { add_once(all, Same(one)); }
}

/// Adds the trials of each case, whose placements are by arm, but those of pairs that are done.
void add_trials(const Scenario& scenario, const std::vector<std::vector<std::size_t>>& placement_of,
                bool emulated, const PairsDone& done, Plan& plan) {
  std::optional<std::size_t> booted;  // and kept for the placement's later trials, if the scenario says so
  for (const auto& placements : placement_of) {
    for (std::int64_t pair = 1; pair <= scenario.pairs; ++pair) {
      if (done.contains({plan.placements[placements[0]].case_name, pair})) { continue; }
      for (const auto a : order_of_arms(scenario, pair)) {
        const auto& arm = scenario.arms[a];
        const auto p = placements[a];
        const bool in_vms = runs_in_vms(arm.base);
        const bool is_up = in_vms && booted == p && scenario.reuse != Reuse::trial;
        const double spared = is_up ? boot_seconds(plan.placements[p], in_vms, emulated) : 0;
        const double seconds = trial_seconds(plan.placements[p], in_vms, emulated) - spared +
                               static_cast<double>(scenario.settle_ns) * 1e-9;
        plan.trials.push_back({static_cast<std::int64_t>(plan.trials.size()) + 1, p, arm.name, arm.base, pair,
                               seconds, unproven(seconds, in_vms, emulated)});
        plan.estimate_seconds += seconds;
        plan.likely += plan.trials.back().likely;
        if (!in_vms) { continue; }
        if (!is_up) { plan.vm_boots += plan.placements[p].nodes(); }
        booted = p;
      }
    }
  }
}

/// Devices go to VMs when a trial first needs them there, stay over further VM trials unless they are vGPUs
/// or in the way of others, and all go back for the first trial on bare metal, or at the end.
std::int64_t bindings_of(const Plan& plan, const std::string& host) {
  std::vector<vmctl::DeviceGrant> lent;
  std::int64_t bindings = 0;
  const auto bind = [&](std::size_t devices) { bindings += static_cast<std::int64_t>(devices); };
  const auto give_back = [&] {
    bind(lent.size());
    lent.clear();
  };
  std::vector<std::vector<vmctl::DeviceGrant>> grants;
  // No experiment: the UUIDs of mediated devices only tell them apart here, and are not those that they will
  // have.
  for (const auto& placement : plan.placements) { grants.push_back(grants_of(placement, "")[host]); }
  const auto lend = [&](const std::vector<vmctl::DeviceGrant>& wanted) {
    bind(std::erase_if(lent, vmctl::is_made_for_each_vm));
    if (vmctl::must_make_way(lent, wanted)) { give_back(); }
    for (const auto& grant : wanted) {
      if (contains(lent, grant)) { continue; }
      lent.push_back(grant);
      bind(1);
    }
  };
  for (const auto& trial : plan.trials) {
    if (runs_in_vms(trial.base)) {
      lend(grants[trial.placement]);
    } else {
      give_back();
    }
  }
  for (const auto& arm : plan.security) {
    for (std::int64_t i = 0; arm.device_placement && i < tenants_of_device; ++i) {
      lend(grants[*arm.device_placement]);
    }
    if (arm.peer_placement) { lend(grants[*arm.peer_placement]); }
  }
  give_back();
  return bindings;
}

/// Hosts bind at once: the one with the most takes the time.
void count_bindings(Plan& plan) {
  std::int64_t most = 0;
  for (const auto& host : hosts_of(plan)) {
    const auto bindings = bindings_of(plan, host);
    plan.device_bindings += bindings;
    most = std::max(most, bindings);
  }
  const double seconds = static_cast<double>(most) * binding_seconds;
  plan.estimate_seconds += seconds;
  plan.likely += unproven(seconds, true, false);
}

nlohmann::json device_json(const vmctl::PlacedDevice& device) {
  nlohmann::json out{{"address", device.grant.address},
                     {"kind", vmctl::to_string(device.grant.kind)},
                     {"class", vmctl::to_string(device.device_class)},
                     {"name", device.name},
                     {"root_complex", device.root_complex},
                     {"bridges", device.bridges},
                     {"numa_node", device.numa_node}};
  if (!device.grant.vgpu_type.empty()) { out["vgpu_type"] = device.grant.vgpu_type; }
  if (!device.grant.physical_function.empty()) { out["physical_function"] = device.grant.physical_function; }
  if (device.vfio != vmctl::Vfio::container) { out["vfio"] = vmctl::to_string(device.vfio); }
  if (device.grant.between_tenants != vmctl::BetweenTenants::none) {
    out["between_tenants"] = vmctl::to_string(device.grant.between_tenants);
  }
  return out;
}

nlohmann::json node_json(const NodePlacement& node) {
  nlohmann::json details = nlohmann::json::array();
  for (const auto& device : node.devices) { details.push_back(device_json(device)); }
  nlohmann::json out{{"hostname", node.hostname},
                     {"cores", node.cores},
                     {"memory_bytes", node.memory_bytes},
                     {"devices", node.device_addresses()},
                     {"device_details", details},
                     {"devices_reason", node.devices_reason},
                     {"emulator_cores", node.emulator_cores},
                     {"network", {{"address", node.address}, {"mac", node.mac}}}};
  if (const auto limits = vmctl::limits_text(node.limits); !limits.empty()) { out["limits"] = limits; }
  if (node.network_function) { out["network"]["function"] = device_json(*node.network_function); }
  out["numa_node"] = node.numa_node ? nlohmann::json(*node.numa_node) : nlohmann::json(nullptr);
  if (!node.host.empty()) { out["host"] = node.host; }
  return out;
}

nlohmann::json tenant_json(const TenantPlacement& tenant) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const auto& node : tenant.nodes) { nodes.push_back(node_json(node)); }
  nlohmann::json out{{"name", tenant.name},
                     {"gpus_per_node", tenant.gpus_per_node},
                     {"ranks_per_node", tenant.ranks_per_node},
                     {"threads_per_rank", tenant.threads_per_rank},
                     {"nodes", std::move(nodes)},
                     {"workload", tenant.neighbour ? to_json(*tenant.neighbour) : to_json(tenant.workload)}};
  if (tenant.runs_job()) { out["command"] = job_words(tenant); }
  return out;
}

nlohmann::json arm_json(const Arm& arm) {
  nlohmann::json changes = nlohmann::json::object();
  for (const auto& change : arm.changes) { changes[change.key] = change.value; }
  nlohmann::json out{{"name", arm.name}, {"base", arm.base}, {"like", nullptr}, {"changes", changes}};
  if (!arm.like.empty()) { out["like"] = arm.like; }
  if (!arm.attached.empty()) {
    nlohmann::json machines = nlohmann::json::array();
    for (const auto& machine : arm.attached) {
      machines.push_back({{"name", machine.name}, {"launcher", machine.launcher}});
      if (!machine.address.empty()) { machines.back()["address"] = machine.address; }
    }
    out["attach"] = std::move(machines);
  }
  if (arm.price) { out["price"] = {{"amount", arm.price->amount}, {"currency", arm.price->currency}}; }
  return out;
}

}  // namespace

nlohmann::json to_json(const Neighbour& neighbour) {
  nlohmann::json out{{"aggressor", nullptr}, {"share", to_string(neighbour.share)}};
  if (!neighbour.is_idle()) {
    out["aggressor"] = neighbour.aggressor;
    out["level"] = neighbour.level;
  }
  return out;
}

nlohmann::json to_json(const Workload& workload) {
  auto settings = settings_json(workload);
  if (!workload.job) { return settings; }
  for_each_field<Workload>([&](const auto& field) {
    if (field.is.key != nullptr && !uses_setting(workload, field.is.key)) { settings.erase(field.name); }
  });
  settings.update(settings_json(*workload.job));
  if (workload.job->figures.empty()) { settings.erase("figures"); }
  return settings;
}

std::string payload_of(const TenantPlacement& tenant) {
  return tenant.runs_job() ? tenant.workload.job->payload : "";
}

std::vector<std::string> job_words(const TenantPlacement& tenant) {
  auto values = workload_placeholders(tenant.workload);
  values["nodes"] = std::to_string(tenant.nodes.size());
  values["ranks"] = std::to_string(tenant.ranks());
  values["ranks_per_node"] = std::to_string(tenant.ranks_per_node);
  values["gpus_per_node"] = std::to_string(tenant.gpus_per_node);
  values["threads"] = std::to_string(tenant.threads_per_rank);
  std::vector<std::string> words;
  for (const auto& word : tenant.workload.job->command) { words.push_back(filled(word, values)); }
  return words;
}

std::vector<std::string> NodePlacement::device_addresses() const {
  std::vector<std::string> addresses;
  for (const auto& device : devices) { addresses.push_back(device.grant.address); }
  return addresses;
}

bool TenantPlacement::has_rdma_adapter() const {
  const auto is_adapter = [](const auto& device) {
    return device.device_class == vmctl::DeviceClass::rdma_nic;
  };
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return std::any_of(node.devices.begin(), node.devices.end(), is_adapter);
  });
}

std::int64_t Placement::nodes() const {
  std::int64_t sum = 0;
  for (const auto& tenant : tenants) { sum += static_cast<std::int64_t>(tenant.nodes.size()); }
  return sum;
}

std::int64_t Placement::training_nodes() const {
  std::int64_t sum = 0;
  for (const auto& tenant : tenants) { sum += tenant.neighbour ? 0 : std::ssize(tenant.nodes); }
  return sum;
}

std::int64_t boot_deadline_ns(const Scenario& scenario, const Guest& guest, const NodePlacement& node) {
  constexpr std::int64_t second_ns = 1'000'000'000;
  const auto gpus = std::count_if(node.devices.begin(), node.devices.end(), [](const auto& device) {
    return device.device_class == vmctl::DeviceClass::gpu;
  });
  const auto pinning = vmctl::pinning_time(node.memory_bytes, devices_of(node), guest.hugepages);
  return scenario.boot_timeout_ns + gpus * 90 * second_ns + pinning.count() * second_ns;
}

bool expects_emulation(const vmctl::Inventory& inventory) {
  const auto has = [&](const std::string& flag) { return contains(inventory.cpu_flags, flag); };
  return !inventory.has_kvm_device || !(has("vmx") || has("svm"));
}

Plan make_plan(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated,
               const PairsDone& done) {
  return make_plan(scenario, {{"", inventory, emulated}}, done);
}

namespace {

/// Several hosts by the names that the run has for them: their own may be alike, and then neither messages
/// nor addresses that follow from them would tell the hosts apart.
std::vector<PlanHost> by_their_names(std::vector<PlanHost> hosts) {
  if (hosts.size() == 1) { return hosts; }
  for (auto& host : hosts) { host.inventory.hostname = host.name; }
  return hosts;
}

}  // namespace

Plan make_plan(const Scenario& scenario, const std::vector<PlanHost>& given, const PairsDone& done) {
  const auto hosts = by_their_names(given);
  for (const auto& host : hosts) {
    if (host.inventory.architecture == vmctl::supported_architecture) { continue; }
    throw Error(
        "plan " + scenario.name, ErrorCode::host_unable,
        fmt::format("{} is an {} host, and virtrain makes VMs and slices on {} hosts only",
                    host.inventory.hostname, host.inventory.architecture, vmctl::supported_architecture));
  }
  Plan plan;
  plan.scenario = scenario.name;
  plan.emulated = std::ranges::any_of(hosts, &PlanHost::emulated);
  plan.until = scenario.until;
  plan.warnings = scenario.warnings;
  plan.isolation = scenario.isolation;
  plan.order_seed = scenario.order_seed;
  HostPlacers placer(scenario, hosts);
  for (const auto* arms : {&scenario.arms, &scenario.arms_beside_only}) {
    for (const auto& arm : *arms) {
      plan.arms.push_back({arm.name,
                           arm.base,
                           arm.like,
                           arm.own_changes,
                           arm.changes,
                           arm.price,
                           {},
                           {},
                           arm.neighbour,
                           arm.attached});
    }
  }
  std::vector<std::vector<std::size_t>> placement_of;  // by case and arm
  for (std::size_t c = 0; c < scenario.cases.size(); ++c) {
    placement_of.push_back(place_case(c, scenario, placer, plan.placements));
    wait_alike(placement_of.back(), plan.placements);
  }
  add_trials(scenario, placement_of, plan.emulated, done, plan);
  std::vector<Lack> problems;
  add_new(impossible_arms(scenario), problems);
  if (hosts.size() > 1) {
    add_new(impossible_over_hosts(scenario), problems);
    add_new(impossible_over_functions(scenario, hosts.front().network.kind), problems);
  }
  add_new(placer.problems(), problems);
  for_each_part(plan, hosts, [&](const PlanHost& host, const Plan& part) {
    add_new(kept_memory_problems(scenario, part, host.inventory, host.emulated), problems);
  });
  auto busy = placer.busy();
  if (hosts.size() == 1) {
    place_security(scenario, hosts.front().inventory, hosts.front().emulated, plan, problems, busy);
  }
  const auto code = problems.empty() ? ErrorCode::busy : ErrorCode::host_unable;
  add_new(busy, problems);
  if (!problems.empty()) {
    auto lines = lines_of(problems);
    for (const auto& words : placer.warnings()) { add_once(lines, "warning: " + words); }
    throw Error("plan " + scenario.name, code, join(lines, "\n"));
  }
  for (auto& words : caveats(scenario)) { plan.warnings.push_back(std::move(words)); }
  add_new(placer.warnings(), plan.warnings);
  std::vector<std::string> of_quotas;
  for_each_part(plan, hosts, [&](const PlanHost& host, const Plan& part) {
    const auto words = quota_warning(part, host.inventory);
    if (!words.empty()) { of_quotas.push_back(hosts.size() == 1 ? words : host.name + ": " + words); }
  });
  std::ranges::move(of_quotas, std::back_inserter(plan.warnings));
  count_bindings(plan);
  if (plan.vm_boots > 0 || !plan.security.empty()) {
    plan.image = scenario.devices.kind == DeviceKind::none ? unknown_image : unknown_gpu_image;
  }
  plan.likely += plan.image;
  return plan;
}

void leave_out_image(Plan& plan) {
  plan.likely += {-plan.image.low, -plan.image.high};
  plan.image = {};
}

void learn(Plan& plan, const PastTrials& past) {
  for (auto& trial : plan.trials) {
    const auto found = past.find({plan.placements[trial.placement].case_name, trial.arm});
    if (found == past.end()) { continue; }
    const auto now = proven(found->second);
    plan.estimate_seconds += found->second - trial.estimate_seconds;
    plan.likely += {now.low - trial.likely.low, now.high - trial.likely.high};
    trial.estimate_seconds = found->second;
    trial.likely = now;
  }
}

nlohmann::json to_json(const Plan& plan) {
  nlohmann::json trials = nlohmann::json::array();
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    nlohmann::json tenants = nlohmann::json::array();
    for (const auto& tenant : placement.tenants) { tenants.push_back(tenant_json(tenant)); }
    trials.push_back({{"order", trial.order},
                      {"case", placement.case_name},
                      {"arm", trial.arm},
                      {"base", trial.base},
                      {"pair", trial.pair},
                      {"nodes", placement.nodes()},
                      {"oversubscribed", placement.oversubscribed},
                      {"estimate_seconds", trial.estimate_seconds},
                      {"guest", settings_json(placement.guest)},
                      {"tenants", std::move(tenants)}});
  }
  nlohmann::json arms = nlohmann::json::array();
  for (const auto& arm : plan.arms) { arms.push_back(arm_json(arm)); }
  nlohmann::json security = nlohmann::json::array();
  for (const auto& one : plan.security) { security.push_back(one.base); }
  nlohmann::json looks = nullptr;
  if (plan.until && plan.until->verdict) {
    looks = {{"at_most", plan.until->looks.at_most},
             {"every", plan.until->looks.every},
             {"first", plan.until->looks.first}};
  }
  nlohmann::json out{{"scenario", plan.scenario},
                     {"looks", std::move(looks)},
                     {"arms", std::move(arms)},
                     {"trials", std::move(trials)},
                     {"vm_boots", plan.vm_boots},
                     {"device_bindings", plan.device_bindings},
                     {"estimate_seconds", plan.estimate_seconds},
                     {"estimate_seconds_low", plan.likely.low},
                     {"estimate_seconds_high", plan.likely.high},
                     {"image_seconds_high", plan.image.high},
                     {"warnings", plan.warnings}};
  if (plan.isolation) {
    out["isolation"] = {{"seed", plan.isolation->seed}, {"margin", plan.isolation->margin}};
  }
  if (!security.empty()) { out["security"] = std::move(security); }
  if (plan.order_seed) { out["order_seed"] = *plan.order_seed; }
  return out;
}

}  // namespace virtrain::harness
