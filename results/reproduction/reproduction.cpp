#include "results/reproduction/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/verdict.h"
#include "results/reading/reading.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

StudyFigures figures_of(const CaseComparison& comparison, const ArmSummary& arm) {
  StudyFigures figures{.throughput = arm.throughput};
  if (arm.scaling) {
    figures.speedup = arm.scaling->speedup;
    figures.efficiency = arm.scaling->efficiency;
  }
  // A variant is compared with what it is like, which is another ratio.
  const bool has_ratio = comparison.first_of_case && arm.arm == comparison.candidate && comparison.test;
  if (has_ratio) { figures.ratio = comparison.test->ratio; }
  return figures;
}

ReproducedArm& line_of(std::vector<ReproducedArm>& lines, const CaseComparison& comparison,
                       const ArmSummary& arm) {
  const auto& case_name = comparison.case_name;
  const auto& unit = comparison.throughput_unit;
  const auto known = std::ranges::find_if(lines, [&](const auto& line) {
    return line.case_name == case_name && line.arm == arm.arm && line.unit == unit;
  });
  if (known != lines.end()) { return *known; }
  // Behind the other arms of its case, so that a case stays together.
  const auto same_case = std::find_if(lines.rbegin(), lines.rend(),
                                      [&](const auto& line) { return line.case_name == case_name; });
  const auto place = same_case == lines.rend() ? lines.end() : same_case.base();
  return *lines.insert(place, {case_name, arm.arm, unit, {}, {}, comparison.key, arm.nodes});
}

void add_figures(std::vector<ReproducedArm>& lines, const std::vector<CaseComparison>& comparisons,
                 StudyFigures ReproducedArm::*side) {
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.arms) {
      auto& kept = line_of(lines, comparison, arm).*side;
      const auto found = figures_of(comparison, arm);
      const auto ratio = kept.ratio ? kept.ratio : found.ratio;  // a case may be compared several times
      kept = found;
      kept.ratio = ratio;
    }
  }
}

std::vector<CaseComparison> compare_experiment(const Store& store, const std::string& experiment) {
  CompareRequest request;
  request.selection.experiments = {experiment};
  return compare(store, request);
}

/// A case of the study in a unit in which nobody published it has nothing to stand beside.
void require_units(const std::vector<CaseComparison>& published, const std::vector<CaseComparison>& own) {
  const auto has = [](const std::vector<CaseComparison>& all, const CaseComparison& one, bool in_its_unit) {
    return std::ranges::any_of(all, [&](const CaseComparison& other) {
      return other.case_name == one.case_name &&
             (other.throughput_unit == one.throughput_unit) == in_its_unit;
    });
  };
  for (const auto& one : own) {
    if (has(published, one, true) || !has(published, one, false)) { continue; }
    const auto other = std::ranges::find(published, one.case_name, &CaseComparison::case_name);
    throw Error("reproduce a study", ErrorCode::bad_input,
                fmt::format("{} was published in {} and measured in {} (units are not compared; give an "
                            "experiment in {})",
                            excerpt(one.case_name), excerpt(other->throughput_unit),
                            excerpt(one.throughput_unit), excerpt(other->throughput_unit)));
  }
}

json to_json(const StudyFigures& figures, const std::string& unit) {
  json object = {{"images_per_second", or_null(in_images(figures.throughput, unit))},
                 {"speedup", or_null(figures.speedup)},
                 {"efficiency", or_null(figures.efficiency)},
                 {"ratio", or_null(figures.ratio)}};
  if (unit != images_unit) { object.update({{"throughput", or_null(figures.throughput)}, {"unit", unit}}); }
  return object;
}

void append_cells(std::vector<Cell>& row, const StudyFigures& figures, const std::string& unit) {
  row.push_back(throughput_cell(in_images(figures.throughput, unit)));
  row.push_back(other_unit_cell(figures.throughput, unit));
  row.push_back(cell(figures.speedup, 3));
  row.push_back(share_cell(figures.efficiency));
  row.push_back(cell(figures.ratio, 4));
}

std::optional<double> own_to_published(const ReproducedArm& line) {
  const auto &own = line.own.throughput, &published = line.published.throughput;
  return own && published && *published > 0 ? std::optional(*own / *published) : std::nullopt;
}

/// Four significant digits: a CPU has some thousandths of a GPU's throughput.
Cell quotient_cell(const ReproducedArm& line) {
  const auto quotient = own_to_published(line);
  return quotient ? Cell{*quotient, fmt::format("{:#.4g}", *quotient)} : Cell{};
}

using R = ReproducedArm;
constexpr ColumnOf<R> scaling_columns[] = {
    {"nodes", "nodes", [](const R& of) { return cell(of.nodes); }, true},
    {"own", "own", [](const R& of) { return throughput_cell(of.own.throughput); }, true},
    {"speedup", "speedup", [](const R& of) { return cell(of.own.speedup, 3); }, true},
    {"ideal", "ideal", [](const R& of) { return cell(of.nodes); }, true},
    {"efficiency", "efficiency", [](const R& of) { return share_cell(of.own.efficiency); }, true},
    {"published", "published", [](const R& of) { return throughput_cell(of.published.throughput); }, true},
    {"published_speedup", "published speedup", [](const R& of) { return cell(of.published.speedup, 3); },
     true},
    {"own_to_published", "own ÷ published", quotient_cell, true}};

constexpr ColumnOf<R> case_columns[] = {
    {"case", "case", [](const R& of) { return cell(of.case_name); }, false, false, true},
    {"arm", "arm", [](const R& of) { return cell(of.arm); }, false, false, true},
    {"own", "own", [](const R& of) { return throughput_cell(of.own.throughput); }, true},
    {"published", "published", [](const R& of) { return throughput_cell(of.published.throughput); }, true},
    {"own_to_published", "own ÷ published", quotient_cell, true}};

constexpr ColumnOf<R> ratio_columns[] = {
    {"case", "case", [](const R& of) { return cell(of.case_name); }, false, false, true},
    {"own", "own", [](const R& of) { return cell(of.own.ratio, 4); }, true},
    {"published", "published", [](const R& of) { return cell(of.published.ratio, 4); }, true}};

/// The title of the table in which a line stands.
std::string title_of(const ReproducedArm& line) {
  const auto what =
      line.key.scale ? printed(resized(line.key, {})) + " in " + line.arm : std::string("Other cases");
  return what + ": " + printable(line.unit);
}

Cell stated(const std::string& text) {
  return text.empty() ? Cell{nullptr, "not stated"} : cell(text);
}

}  // namespace

std::vector<ReproducedArm> side_by_side(const std::vector<CaseComparison>& published,
                                        const std::vector<CaseComparison>& own) {
  require_units(published, own);
  std::vector<ReproducedArm> lines;
  add_figures(lines, published, &ReproducedArm::published);
  add_figures(lines, own, &ReproducedArm::own);
  return lines;
}

Reproduction reproduction(const Store& store, const std::string& published_experiment,
                          const std::string& own_experiment) {
  Reproduction result{published_experiment, own_experiment, {}, {}, {}};
  const auto own = compare_experiment(store, own_experiment);
  result.arms = side_by_side(compare_experiment(store, published_experiment), own);
  result.differences =
      study_differences(study_facts(store, published_experiment), study_facts(store, own_experiment));
  for (const auto& comparison : own) {
    result.verdicts.push_back(comparison.case_name + ": " + verdict_sentence(comparison));
  }
  return result;
}

std::string heading_of(const Reproduction& reproduction) {
  return fmt::format("{} (published) next to {} (own)", reproduction.published_experiment,
                     reproduction.own_experiment);
}

Table figures_table(const Reproduction& reproduction) {
  Table table;
  table.title = heading_of(reproduction);
  table.columns = {{"case", "case"}, {"arm", "arm"}};
  for (const std::string side : {"published", "own"}) {
    table.columns.push_back({side + "_images_per_second", side + " images/s", true, true});
    table.columns.push_back({side + "_throughput", side, true, true});
    table.columns.push_back({side + "_speedup", "speedup", true});
    table.columns.push_back({side + "_efficiency", "efficiency", true});
    table.columns.push_back({side + "_ratio", "vm/bare_metal", true});
  }
  table.columns.push_back({"own_to_published", "own ÷ published", true});
  for (const auto& line : reproduction.arms) {
    auto& row = table.rows.emplace_back(std::vector{cell(line.case_name), cell(line.arm)});
    append_cells(row, line.published, line.unit);
    append_cells(row, line.own, line.unit);
    row.push_back(quotient_cell(line));
  }
  for (const auto& verdict : reproduction.verdicts) { table.notes.push_back(verdict + "."); }
  return table;
}

std::vector<Table> narrow_tables(const Reproduction& reproduction) {
  std::vector<std::pair<std::string, std::vector<ReproducedArm>>> groups;
  std::vector<ReproducedArm> ratios;
  for (const auto& line : reproduction.arms) {
    const auto title = title_of(line);
    auto group = std::ranges::find(groups, title, &decltype(groups)::value_type::first);
    if (group == groups.end()) { group = groups.insert(groups.end(), {title, {}}); }
    group->second.push_back(line);
    if (line.own.ratio || line.published.ratio) { ratios.push_back(line); }
  }
  // Scalings first, as they are what most come for.
  std::ranges::stable_partition(groups,
                                [](const auto& group) { return group.second.front().key.scale.has_value(); });
  std::vector<Table> tables;
  const auto add = [&](const auto& columns, const std::vector<ReproducedArm>& rows,
                       const std::string& title) {
    tables.push_back(table_of(columns, rows));
    tables.back().title = title;
  };
  for (const auto& [title, lines] : groups) {
    lines.front().key.scale ? add(scaling_columns, lines, title) : add(case_columns, lines, title);
  }
  if (!ratios.empty()) { add(ratio_columns, ratios, "VM against bare metal"); }
  if (tables.empty()) { return tables; }
  for (const auto& verdict : reproduction.verdicts) { tables.back().notes.push_back(verdict + "."); }
  return tables;
}

Table differences_table(const Reproduction& reproduction) {
  Table table;
  table.title = "What differs";
  table.columns = {{.key = "topic", .head = "topic", .wraps = true},
                   {.key = "published", .head = "published", .wraps = true},
                   {.key = "own", .head = "own", .wraps = true}};
  for (const auto& line : reproduction.differences) {
    table.rows.push_back({cell(line.topic), stated(line.published), stated(line.own)});
  }
  return table;
}

json to_json(const Reproduction& reproduction) {
  json arms = json::array();
  for (const auto& line : reproduction.arms) {
    arms.push_back({{"case", line.case_name},
                    {"arm", line.arm},
                    {"published", to_json(line.published, line.unit)},
                    {"own", to_json(line.own, line.unit)},
                    {"own_to_published", or_null(own_to_published(line))}});
  }
  json differences = json::array();
  for (const auto& line : reproduction.differences) {
    differences.push_back({{"topic", line.topic},
                           {"published", line.published.empty() ? json() : json(line.published)},
                           {"own", line.own.empty() ? json() : json(line.own)}});
  }
  return {{"published_experiment", reproduction.published_experiment},
          {"experiment", reproduction.own_experiment},
          {"arms", arms},
          {"differences", differences},
          {"verdicts", reproduction.verdicts}};
}

namespace {

using nlohmann::json;

/// Something about a study that changes its figures: key of imported trials' `environment`, and its words.
struct StudyTopic {
  std::string_view key;
  std::string_view words;
};
/// Everything that is set side by side, in the order it is shown.
constexpr std::array topics = {
    StudyTopic{"host", "host"},
    StudyTopic{"cpu_model", "processor"},
    StudyTopic{"bios", "BIOS"},
    StudyTopic{"kernel", "kernel"},
    StudyTopic{"hypervisor", "hypervisor"},
    StudyTopic{"virtualization", "virtualization"},
    StudyTopic{"vcpus", "vCPUs of a VM"},
    StudyTopic{"memory", "memory of a VM"},
    StudyTopic{"gpu_name", "GPU"},
    StudyTopic{"driver", "GPU driver"},
    StudyTopic{"cuda", "CUDA"},
    StudyTopic{"nic", "network adapter"},
    StudyTopic{"transport", "transport between ranks"},
    StudyTopic{"workload", "trainer"},
    StudyTopic{"backend", "backend"},
    StudyTopic{"precision", "precision"},
    StudyTopic{"batch_size", "batch size of a rank"},
    StudyTopic{"image_size", "image size in pixels"},
    StudyTopic{"runs", "runs of a case and arm"},
};

std::string json_words(const json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

class FactCollector {
 public:
  explicit FactCollector(const Store& store) : store_(store) {}

  StudyFacts collect(const Experiment& experiment) {
    add_host(experiment);
    for (const auto& trial : store_.trials(experiment.id)) {
      if (trial.status == Status::finished) { add_trial(trial); }
    }
    for (const auto& [case_and_arm, count] : runs_) { add("runs", std::to_string(count)); }
    return std::move(facts_);
  }

 private:
  void add(std::string_view topic, const std::string& value) {
    if (!value.empty()) { facts_[std::string(topic)].insert(value); }
  }

  void add_host(const Experiment& experiment) {
    add("host", experiment.host_name);
    for (const auto& [key, value] : experiment.fingerprint) {
      if (key == "qemu" || key == "libvirt") { add("hypervisor", value); }
    }
    for (const auto& topic : topics) {
      const auto known = experiment.fingerprint.find(std::string(topic.key));
      if (known != experiment.fingerprint.end()) { add(topic.key, known->second); }
    }
    if (!experiment.virtrain_version.empty()) { add("workload", "virtrain " + experiment.virtrain_version); }
  }

  void add_trial(const Trial& trial) {
    ++runs_[{trial.case_name, trial.arm}];
    if (trial.batch_size) { add("batch_size", std::to_string(*trial.batch_size)); }
    add("precision", trial.precision);
    add("backend", trial.backend);
    if (trial.virtualization != "none") { add("virtualization", trial.virtualization); }
    for (const auto& topic : topics) {
      if (trial.environment.is_object() && trial.environment.contains(topic.key)) {
        add(topic.key, json_words(trial.environment.at(std::string(topic.key))));
      }
    }
    for (const auto& tenant : store_.tenants(trial.id)) { add_tenant(tenant); }
  }

  void add_tenant(const Tenant& tenant) {
    add("transport", tenant.transport);
    if (tenant.workload.is_object() && tenant.workload.contains("image_size")) {
      add("image_size", json_words(tenant.workload.at("image_size")));
    }
    for (const auto& node : store_.nodes(tenant.id)) {
      add_gpu(node);
      if (node.kind != "vm") { continue; }
      const auto cpus = node.fingerprint.find("cpus");
      if (cpus != node.fingerprint.end()) { add_cpus(cpus->second); }
      if (node.memory_bytes) { add("memory", format_size(static_cast<std::uint64_t>(*node.memory_bytes))); }
    }
  }

  /// The guest's own word: whatever it is, the other facts stand.
  void add_cpus(const std::string& list) {
    try {
      add("vcpus", std::to_string(parse_cpu_list(list).size()));
    } catch (const Error&) {
      add("vcpus", fmt::format("\"{}\", which is not a list of CPUs", excerpt(list)));
    }
  }

  /// Adds the reports of the ranks in a node on their GPUs; where they differ, it is a list.
  void add_gpu(const Node& node) {
    for (const char* topic : {"gpu_name", "driver", "cuda"}) {
      const auto said = node.fingerprint.find(topic);
      if (said == node.fingerprint.end()) { continue; }
      for (const auto& value : split(said->second, ',')) { add(topic, std::string(trim(value))); }
    }
  }

  const Store& store_;
  StudyFacts facts_;
  std::map<std::pair<std::string, std::string>, std::int64_t> runs_;
};

std::string joined(const StudyFacts& facts, std::string_view topic) {
  const auto found = facts.find(topic);
  return found == facts.end() ? "" : fmt::format("{}", fmt::join(found->second, ", "));
}

}  // namespace

StudyFacts study_facts(const Store& store, const std::string& experiment) {
  return FactCollector(store).collect(store.known_experiment("read", experiment));
}

std::vector<StudyDifference> study_differences(const StudyFacts& published, const StudyFacts& own) {
  std::vector<StudyDifference> differences;
  for (const auto& [key, words] : topics) {
    StudyDifference line{std::string(words), joined(published, key), joined(own, key)};
    if (line.published != line.own) { differences.push_back(std::move(line)); }
  }
  return differences;
}

}  // namespace virtrain::results
