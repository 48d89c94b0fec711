#include "harness/scenario/decode/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "common/model/trial_key.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "harness/scenario/decode/hosts.h"
#include "harness/scenario/decode/input_file.h"
#include "harness/scenario/decode/sections.h"
#include "harness/scenario/placeholders.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {
namespace {

/// The base of cases: the keys that arms and sweeps may lay something over.
struct Ground {
  Guest guest;
  Devices devices;
  Workload workload;
  Layers over;  ///< what arms and sweeps lay over the scenario, and so over its cases and tenants too
  std::vector<std::string> hosts = {};  ///< names of the scenario's; empty: it names none
  bool knows_devices = true;            ///< else nothing is said of what needs them: they are refused already
  bool is_all_attached = false;         ///< its nodes are machines that have GPUs of their own
};

/// The scenario's base with what is laid over it.
Ground decode_ground(MapReader& in, const Layers& over, Diagnostics& diagnostics) {
  Ground ground;
  if (const auto field =
          in.child("workload", {.text = "What each rank trains", .example = {{"batch_size", 64}}})) {
    ground.workload = decode_workload(*field, ground.workload, diagnostics);
  }
  if (const auto field = in.child("guest", {.text = "Size of each node, VM and bare-metal slice alike"})) {
    ground.guest = decode_guest(*field, diagnostics);
  }
  if (const auto field = in.child("devices", {.text = "GPUs, parts of GPUs and adapters that nodes get",
                                              .absent = "nodes get no devices"})) {
    const auto complaints = diagnostics.found().size();
    ground.devices = decode_devices(*field, diagnostics);
    ground.knows_devices = diagnostics.found().size() == complaints;
  }
  ground.over = over;
  return ground;
}

/// A case's or a tenant's own workload, whose absent keys are as `inherited` describes.
Workload decode_own_workload(MapReader& in, const char* inherited, const Ground& ground, const Workload& base,
                             Diagnostics& diagnostics) {
  const auto own = in.child(
      "workload",
      {.text = "What its ranks train instead", .absent = inherited, .example = {{"batch_size", 16}}});
  if (!own) { return base; }
  auto field = own->inheriting(inherited);
  for (const auto& layer : layers_below(ground.over, {"workload"})) { field.lay(layer); }
  return decode_workload(field, base, diagnostics);
}

/// The hosts of a tenant's nodes, in a tenant and in `scale` alike.
struct Places {
  std::optional<std::int64_t> per_host;
  std::string on;
};

Places decode_places(MapReader& in, const Ground& ground) {
  Places places;
  places.per_host = in.integer("per_host", {1, most_nodes},
                               {.text = "Nodes on each of several hosts, which are filled in the order of "
                                        "their names",
                                .absent = "as evenly as it goes",
                                .example = 1});
  const About of_spread{.text = "How nodes are given to several hosts: hosts, as evenly as it goes",
                        .fallback = "hosts"};
  const bool spreads = in.one_of("spread", {"hosts"}, of_spread).has_value();
  const About of_on{.text = "The one of several hosts that has all of its nodes",
                    .absent = "any of them",
                    .example = "gpu-a"};
  places.on = in.text("on", most_host_name_bytes, of_on).value_or("");
  if (!places.on.empty() && (places.per_host || spreads)) {
    in.refuse("on", "all nodes are on one host, or on several (remove on, or {})",
              places.per_host ? "per_host" : "spread");
  } else if (places.per_host && spreads) {
    in.refuse("spread", "spread: hosts gives each host as many as it goes (remove it, or per_host)");
  }
  if (!places.on.empty() && !ground.hosts.empty() && !contains(ground.hosts, places.on)) {
    in.refuse("on", "there is no host '{}' (allowed: {})", printable(places.on), join(ground.hosts, ", "));
  }
  return places;
}

/// Demands of a placement on each node, in a tenant and in `scale` alike.
struct PerNode {
  std::int64_t gpus = 0;
  std::int64_t ranks = 1;
  std::string vgpu_type;
};

PerNode decode_per_node(MapReader& in, const Ground& ground, const Workload& workload) {
  const auto& devices = ground.devices;
  PerNode per_node;
  in.integer("gpus_per_node", {0, most_per_node}, per_node.gpus, "GPUs of each node, with one rank for each");
  per_node.ranks = per_node.gpus > 0 ? per_node.gpus : 1;
  in.integer("ranks_per_node", {1, most_per_node}, per_node.ranks,
             "Trainer processes in each node without GPUs");
  per_node.vgpu_type = devices.vgpu_type;
  const About of_type{
      .text = "vGPU type of these nodes, by name or id", .absent = "devices.type", .example = "A100-20C"};
  if (const auto type = in.text("vgpu_type", most_type_bytes, of_type)) {
    if (layers_below(ground.over, {"devices", "type"}).empty()) { per_node.vgpu_type = *type; }
    if (devices.kind != DeviceKind::vgpu) {
      in.refuse("vgpu_type", "vgpu_type needs devices of kind vgpu (remove one of them)");
    }
  }
  if (devices.kind == DeviceKind::vgpu && per_node.gpus > 0 && per_node.vgpu_type.empty()) {
    in.refuse("gpus_per_node",
              "a vGPU needs a type (devices.type, or vgpu_type here; virtrain doctor --devices lists them)");
  }
  if (per_node.gpus > 0 && devices.kind == DeviceKind::none && ground.knows_devices &&
      !ground.is_all_attached) {
    in.refuse("gpus_per_node",
              "gpus_per_node needs devices of a kind other than none (allowed here: 0, or ranks_per_node)");
  }
  if (per_node.gpus == 0 && workload.backend == Backend::cuda) {
    in.refuse(
        "gpus_per_node",
        "backend cuda needs at least one GPU in each node (add gpus_per_node: 1 here, and to the scenario "
        "devices: {kind: passthrough})");
  }
  if (per_node.gpus > 0 && per_node.ranks != per_node.gpus) {
    in.refuse("ranks_per_node", "there is one rank for each GPU (leave ranks_per_node out)");
  }
  return per_node;
}

/// The schema's sentences about a tenant without a name, or without a workload of its own.
struct TenantDefaults {
  const char *name, *workload;
};
constexpr TenantDefaults tenant_defaults{"tenant-1, tenant-2, …", "as in the case's workload"};
constexpr TenantDefaults victim_defaults{"victim-1, victim-2, …", "as in the scenario's workload"};

Tenant decode_tenant(MapReader& in, const Ground& ground, const Workload& base,
                     const std::string& default_name, const TenantDefaults& defaults,
                     Diagnostics& diagnostics) {
  Tenant tenant;
  const About of_name{.text = "Name in tables", .absent = defaults.name, .example = "trainer"};
  tenant.name = in.name("name", of_name).value_or(default_name);
  in.integer("nodes", {1, most_nodes}, tenant.nodes, "VMs, or bare-metal slices, that train together");
  tenant.workload = decode_own_workload(in, defaults.workload, ground, base, diagnostics);
  const auto per_node = decode_per_node(in, ground, tenant.workload);
  tenant.gpus_per_node = per_node.gpus;
  tenant.ranks_per_node = per_node.ranks;
  tenant.vgpu_type = per_node.vgpu_type;
  const auto places = decode_places(in, ground);
  tenant.per_host = places.per_host;
  tenant.on = places.on;
  tenant.limits = ground.guest.limits;
  if (const auto limits = in.child(
          "limits", {.text = "What each node of this tenant may use at most", .absent = "guest.limits"})) {
    auto field = limits->inheriting("as in guest.limits");
    for (const auto& layer : layers_below(ground.over, {"guest", "limits"})) { field.lay(layer); }
    tenant.limits = decode_limits(field, tenant.limits, ground.guest.vcpus, diagnostics);
  }
  return tenant;
}

void decode_tenants(const Field& field, const Ground& ground, const Workload& base, Case& out,
                    Diagnostics& diagnostics) {
  std::set<std::string> names;
  for (const auto& item : read_list(field, "tenants", 1, most_nodes, diagnostics)) {
    MapReader in(item, "tenant", diagnostics);
    auto tenant = decode_tenant(in, ground, base, fmt::format("tenant-{}", out.tenants.size() + 1),
                                tenant_defaults, diagnostics);
    if (!names.insert(tenant.name).second) { in.refuse("name", "two tenants are named '{}'", tenant.name); }
    if (!out.tenants.empty() && unit_of(out.tenants[0].workload) != unit_of(tenant.workload)) {
      in.refuse("workload",
                "tenants of a case are added, and {} counts {} where {} counts {} (write two cases)",
                tenant.name, unit_of(tenant.workload), out.tenants[0].name, unit_of(out.tenants[0].workload));
    }
    in.finish();
    out.tenants.push_back(std::move(tenant));
  }
}

std::vector<Case> decode_scale(const Field& field, const Ground& ground, const Workload& base,
                               const CaseKey& key, Diagnostics& diagnostics) {
  MapReader in(field, "scale", diagnostics);
  in.require("nodes");
  const auto per_node = decode_per_node(in, ground, base);
  const auto places = decode_places(in, ground);
  std::vector<Case> cases;
  const About about{.text = "Numbers of nodes, one case for each", .example = {1, 2, 4}};
  if (const auto sizes = in.child("nodes", about)) {
    std::set<std::int64_t> seen;
    for (const auto& item : read_set(*sizes, "nodes", 1, 64, diagnostics)) {
      const auto size = read_integer(item, "nodes", {1, most_nodes}, diagnostics);
      if (!size) { continue; }
      if (!seen.insert(*size).second) { diagnostics.add(item.node.Mark(), "size {} is there twice", *size); }
      cases.push_back({printed(resized(key, size)),
                       resized(key, size),
                       {{"tenant-1",
                         *size,
                         per_node.gpus,
                         per_node.ranks,
                         base,
                         per_node.vgpu_type,
                         {},
                         ground.guest.limits,
                         false,
                         places.per_host,
                         places.on}},
                       ground.guest,
                       ground.devices});
    }
  }
  in.finish();
  return cases;
}

/// One case of the file at one point of its sweep.
void decode_placements(MapReader& in, const CaseKey& key, const Ground& ground, bool describes,
                       std::vector<Case>& cases, Diagnostics& diagnostics) {
  const auto name = printed(key);
  const auto workload =
      decode_own_workload(in, "as in the scenario's workload", ground, ground.workload, diagnostics);
  const About of_tenants{.text = "Isolated owners of nodes, each with a network of its own",
                         .absent = "the case has scale instead",
                         .example = Schema::array({{{"nodes", 1}, {"gpus_per_node", 2}}})};
  const About of_scale{.text = "Weak scaling: one case for each number of nodes",
                       .absent = "the case has tenants instead"};
  if (describes) {  // one by one: a further key may move what the schema says of those before it
    Case described;
    decode_tenants(*in.child("tenants", of_tenants), ground, workload, described, diagnostics);
    decode_scale(*in.child("scale", of_scale), ground, workload, key, diagnostics);
    in.schema_rules({{"oneOf", {{{"required", {"tenants"}}}, {{"required", {"scale"}}}}}});
    return;
  }
  const auto tenants = in.child("tenants", of_tenants);
  const auto scale = in.child("scale", of_scale);
  if (tenants.has_value() == scale.has_value()) {
    if (!tenants && (in.is_misspelt("tenants") || in.is_misspelt("scale"))) { return; }
    diagnostics.add(in.mark(), "case '{}' needs exactly one of 'tenants' and 'scale'", name);
  } else if (tenants) {
    Case placement{name, key.point.empty() ? CaseKey() : key, {}, ground.guest, ground.devices};
    decode_tenants(*tenants, ground, workload, placement, diagnostics);
    cases.push_back(std::move(placement));
  } else {
    for (auto& sized : decode_scale(*scale, ground, workload, key, diagnostics)) {
      cases.push_back(std::move(sized));
    }
  }
}

/// With "@", and the "/64" of a weak scaling, what import takes.
constexpr std::size_t most_case_name_bytes = 990;

/// The cases of a file, as an arm has them.
class CaseDecoder {
 public:
  CaseDecoder(const Field& document, const Ground& plain, std::vector<SweepPoint> sweep,
              const std::vector<Variant>& variants, Diagnostics& diagnostics)
      : document_(document),
        plain_(plain),
        sweep_(std::move(sweep)),
        variants_(variants),
        diagnostics_(diagnostics) {}

  /// `most_points`: of each item's sweep, where the others are refused anyway.
  std::vector<Case> decode(const std::vector<Field>& items, const Layers& arm,
                           std::size_t most_points = most_trials) const {
    std::vector<Case> cases;
    std::set<std::string> names;
    for (const auto& item : items) { decode_item(item, arm, most_points, names, cases); }
    return cases;
  }

  /// One case for each victim of `isolation`, which it is the only tenant of.
  std::vector<Case> decode_victims(const std::vector<Field>& items, const Layers& arm) const {
    std::vector<Case> cases;
    std::set<std::string> names;
    for (const auto& item : items) {
      const auto ground = ground_with({}, arm);
      MapReader in(item, "victim", diagnostics_);
      const auto tenant =
          decode_tenant(in, ground, ground.workload, fmt::format("victim-{}", cases.size() + 1),
                        victim_defaults, diagnostics_);
      if (!names.insert(tenant.name).second) { in.refuse("name", "two victims are named '{}'", tenant.name); }
      in.finish();
      cases.push_back({tenant.name, {}, {tenant}, ground.guest, ground.devices});
    }
    return cases;
  }

  /// Limits in `isolation.neighbour`, as the arm has them.
  vmctl::NodeLimits neighbour_limits(const Layers& arm) const {
    const auto& guest = ground_with({}, arm).guest;
    Field document = document_;
    for (const auto& layer : arm) { document.lay(layer); }
    MapReader in(document, "the scenario", diagnostics_);
    MapReader isolation(in.child("isolation", {""}).value(), "isolation", diagnostics_);
    return decode_neighbour_limits(isolation, guest, layers_below(arm, {"guest", "limits"}), diagnostics_);
  }

 private:
  void decode_item(const Field& item, const Layers& arm, std::size_t most_points,
                   std::set<std::string>& names, std::vector<Case>& cases) const {
    MapReader in(item, "case", diagnostics_);
    in.require("name");
    const std::string name =
        in.name("name", {.text = "Name in tables", .example = "two-vms-one-gpu"}).value_or("unnamed");
    if (!names.insert(name).second) { in.refuse("name", "two cases are named '{}'", name); }
    auto points = decode_sweep(in, "the scenario's sweep", diagnostics_);
    refuse_swept_keys(points, variants_, diagnostics_);
    if (points.empty()) { points = sweep_; }
    if (points.empty()) { points.emplace_back(); }
    points.resize(std::min(points.size(), most_points));
    for (const auto& point : points) {
      const CaseKey key{name, {}, point.point};
      const auto bytes = name.size() + to_text(point.point).size();
      if (bytes > most_case_name_bytes) {
        diagnostics_.add(
            point.layers.front().mark,
            fmt::format("sweep: the name of a case would have {} bytes (allowed: at most {}; use "
                        "fewer keys or shorter values)",
                        bytes, most_case_name_bytes));
      }
      decode_placements(in, key, ground_with(point.layers, arm), item.describes(), cases, diagnostics_);
    }
    in.finish();
  }

  Ground ground_with(const Layers& point, const Layers& arm) const {
    if (point.empty() && arm.empty()) { return plain_; }
    Field document = document_;
    for (const auto* layers : {&point, &arm}) {
      for (const auto& layer : *layers) { document.lay(layer); }
    }
    MapReader in(document, "the scenario", diagnostics_);
    auto ground = decode_ground(in, document.over, diagnostics_);
    ground.hosts = plain_.hosts;
    ground.is_all_attached = plain_.is_all_attached;
    return ground;
  }

  const Field& document_;
  const Ground& plain_;
  std::vector<SweepPoint> sweep_;
  const std::vector<Variant>& variants_;
  Diagnostics& diagnostics_;
};

/// `cases`, or the victims of `isolation` as cases; then the arms, each with its own of them.
void decode_work(MapReader& in, const Field& document, const Ground& ground, std::vector<SweepPoint> sweep,
                 std::vector<Variant>& variants, Scenario& scenario, bool large_sweeps,
                 Diagnostics& diagnostics) {
  const auto points = sweep.size();
  const CaseDecoder decoder(document, ground, std::move(sweep), variants, diagnostics);
  const About placements{
      .text = "Placements of work: tenants and their nodes",
      .absent = "the scenario has isolation instead",
      .example = Schema::array({{{"name", "two-nodes"}, {"scale", {{"nodes", Schema::array({2})}}}}})};
  const auto cases = in.child("cases", placements);
  if (cases) {
    const auto items = read_list(*cases, "cases", 1, 256, diagnostics);
    const bool too_many =
        !document.describes() && refuse_many_cases(in, count_cases(items, points, diagnostics),
                                                   variants.size(), scenario.pairs, large_sweeps);
    const std::size_t most_points = too_many ? 1 : most_trials;
    scenario.cases = decoder.decode(items, {}, most_points);
    for (auto& variant : variants) {
      variant.arm.cases =
          variant.layers.empty() ? scenario.cases : decoder.decode(items, variant.layers, most_points);
    }
  }
  const auto isolation = in.child("isolation", {.text = "Victims that train next to neighbours",
                                                .absent = "the scenario has cases instead"});
  in.schema_rules({{"oneOf", {{{"required", {"cases"}}}, {{"required", {"isolation"}}}}}});
  const bool is_misspelt = !cases && (in.is_misspelt("cases") || in.is_misspelt("isolation"));
  if (document.node.IsMap() && cases.has_value() == isolation.has_value() && !is_misspelt) {
    diagnostics.add(in.mark(), "the scenario needs exactly one of 'cases' and 'isolation'");
  }
  std::optional<MapReader> block;
  if (isolation) {
    block.emplace(*isolation, "isolation", diagnostics);
    scenario.isolation = decode_isolation(*block, diagnostics);
    if (points > 0) { in.refuse("sweep", "isolation has levels in place of a sweep (remove one of them)"); }
    const auto limits = decode_neighbour_limits(*block, ground.guest, {}, diagnostics);
    const About of_victims{.text = "Tenants that train, each measured by itself",
                           .example = Schema::array({{{"name", "trainer"}, {"nodes", 1}}})};
    if (const auto victims = block->child("victims", of_victims)) {
      const auto items = read_list(*victims, "victims", 1, 64, diagnostics);
      scenario.cases = decoder.decode_victims(items, {});
      for (auto& variant : variants) {
        variant.arm.cases = decoder.decode_victims(items, variant.layers);
        variant.arm.neighbour_limits =
            variant.layers.empty() ? limits : decoder.neighbour_limits(variant.layers);
      }
    }
    block->finish();
  }
  for (auto& variant : variants) {
    if (!isolation) { refuse_neighbour(variant, diagnostics); }
    scenario.arms.push_back(std::move(variant.arm));
  }
  // Beside `cases`, which is refused, the scenario's cases are no victims.
  if (!isolation || cases || document.describes()) { return; }
  check_aggressors(*block, scenario, *scenario.isolation);
  if (!diagnostics.empty()) { return; }
  expand_conditions(scenario, *scenario.isolation);
}

Scenario decode_document(const Field& document, bool large_sweeps,
                         const std::optional<std::filesystem::path>& folder, Diagnostics& diagnostics) {
  Scenario scenario;
  MapReader in(document, "the scenario", diagnostics);
  for (const char* key : {"name", "workload", "guest"}) { in.require(key); }
  const About of_name{.text = "Name in lists and reports", .example = "dell-r750xa"};
  scenario.name = in.name("name", of_name).value_or("");
  const About of_description{.text = "What the scenario measures, for its readers",
                             .absent = "no description",
                             .example = "One VM with two GPUs against bare metal"};
  scenario.description = in.text("description", 4096, of_description).value_or("");
  if (const auto hosts = in.child("hosts", about_hosts())) {
    scenario.hosts = decode_hosts_key(*hosts, folder, diagnostics);
  }
  auto ground = decode_ground(in, {}, diagnostics);
  for (const auto& host : scenario.hosts.hosts) { ground.hosts.push_back(host.name); }
  scenario.guest = ground.guest;
  scenario.devices = ground.devices;
  auto variants = decode_arms(in, diagnostics);
  ground.is_all_attached =
      std::ranges::all_of(variants, [](const Variant& variant) { return variant.arm.base == arm_attach; });
  if (in.has("isolation") && !in.has("arms") && !document.describes()) {
    std::erase_if(variants, [](const Variant& variant) { return variant.arm.base != arm_vm; });
  }
  decode_prices(in, variants, diagnostics);
  auto sweep = decode_sweep(in, "each case runs with its own values", diagnostics);
  refuse_swept_keys(sweep, variants, diagnostics);
  if (!in.has("devices") && !document.describes()) {
    refuse_changes_of_no_devices(variants, sweep, diagnostics);
  }
  decode_pairs(in, scenario, diagnostics);  // before the cases, which may be too many for them
  decode_work(in, document, ground, std::move(sweep), variants, scenario, large_sweeps, diagnostics);
  scenario.probes = decode_probes(in, scenario.cases, diagnostics);
  const About reuse{.text = "Whether VMs boot for each trial or once for each case", .fallback = "trial"};
  if (const auto i = in.one_of("reuse", {"trial", "case"}, reuse)) {
    scenario.reuse = static_cast<Reuse>(*i);
  }
  in.boolean("oversubscribe", scenario.oversubscribe,
             "Whether there may be more vCPUs than cores, and more ranks than vCPUs");
  if (!document.describes() && diagnostics.empty()) { refuse_crowded_nodes(in, scenario); }
  in.boolean("security", scenario.security,
             "Whether to probe, after the trials, what a tenant reaches or finds of others and of the host");
  if (scenario.security && !has_arm(scenario, arm_vm) && !has_arm(scenario, arm_bare_metal)) {
    in.refuse("security",
              "security: slices without namespaces keep nobody apart, so nothing is probed (allowed "
              "with an arm vm or bare_metal)");
  }
  if (scenario.until && scenario.until->verdict && scenario.arms.size() < 2) {
    in.refuse("pairs", "until: verdict needs two arms to compare");
  }
  if (!document.describes()) { check_attached(in, scenario, variants, diagnostics); }
  decode_times(in, scenario);
  check_extent(in, scenario);
  decode_expect(in, scenario, diagnostics);
  in.finish();
  in.schema_rules(
      {{"if",
        {{"properties", {{"expect", {{"required", {"vm_vs_bare_metal"}}}}}},
         {"required", {"expect", "arms"}}}},
       {"then",
        {{"properties",
          {{"arms",
            {{"allOf",
              {{{"contains", {{"const", "vm"}}}}, {{"contains", {{"const", "bare_metal"}}}}}}}}}}}}});
  if (scenario.pairs > 1 && scenario.pairs % 2 == 1 && scenario.arms.size() > 1 && !scenario.until &&
      !scenario.isolation) {
    scenario.warnings.push_back(fmt::format(
        "pairs: {} is odd, so one order of the arms runs once more often than the other", scenario.pairs));
  }
  return scenario;
}

const KeyPlaces& scenario_places() {
  static const KeyPlaces places = key_places(scenario_schema());
  return places;
}

}  // namespace

Scenario decode_scenario(const std::string& text, const std::string& file_name, bool large_sweeps,
                         const std::optional<std::filesystem::path>& folder) {
  Diagnostics diagnostics(file_name, &scenario_places);
  Scenario scenario;
  if (const auto document = parse_input(text, file_name, diagnostics)) {
    scenario = decode_document({*document}, large_sweeps, folder, diagnostics);
  }
  diagnostics.throw_if_any();
  scenario.text = with_hosts_inline(text, scenario.hosts);
  return scenario;
}

Schema scenario_schema() {
  Schema schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                {"$id", "urn:virtrain:scenario"},
                {"title", "virtrain scenario"}};
  Diagnostics unused("");
  decode_document({{}, &schema}, true, std::nullopt, unused);
  return schema;
}

std::filesystem::path folder_of_scenario(const std::string& path) {
  return path == "-" ? std::filesystem::path() : std::filesystem::path(path).parent_path();
}

Scenario load_scenario(const std::string& path, bool large_sweeps) {
  const auto text = read_input_file(path, "virtrain scenarios lists those that ship");
  return decode_scenario(text, input_name(path), large_sweeps, folder_of_scenario(path));
}

}  // namespace virtrain::harness
