#include "results/exchange/readers/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {

std::optional<double> number_of(const nlohmann::json& value) {
  std::optional<double> number;
  if (value.is_number()) { number = value.get<double>(); }
  if (value.is_string()) { number = parse_number(trim(value.get_ref<const std::string&>())); }
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::string time_at(std::optional<double> seconds) {
  constexpr double nanoseconds_per_second = 1e9, last_second = 4e9;
  if (!seconds || *seconds <= 0 || *seconds > last_second) { return ""; }
  return iso8601(static_cast<std::int64_t>(*seconds * nanoseconds_per_second));
}

std::optional<Scope> scope_in_name(const std::string& name) {
  auto words = lower(name);
  std::ranges::replace_if(
      words, [](char c) { return c == ' ' || c == '-'; }, '_');
  const auto has = [&](const char* word) { return words.find(word) != words.npos; };
  if (has("per_gpu") || has("per_cpu") || has("per_device") || has("per_rank") || has("per_process") ||
      has("per_task") || has("pergpu")) {
    return Scope::rank;
  }
  if (has("total") || has("aggregate") || has("overall")) { return Scope::trial; }
  return std::nullopt;
}

bool is_part(double part, double total, std::int64_t devices) {
  constexpr double give = 0.05;
  return std::abs(part * static_cast<double>(devices) - total) <= give * total;
}

namespace {

/// Refuses GPUs of a node, and processes, that do not fit the options.
void check_shape(const TrainingFigure& figure, const ImportSettings& settings, std::int64_t nodes,
                 std::int64_t gpus, const LineReader& lines) {
  if (figure.gpus_per_node && *figure.gpus_per_node != gpus) {
    lines.refuse("{} in this file is of {} on each node, and --gpus-per-node says {}: leave it out",
                 figure.what, counted(*figure.gpus_per_node, "GPU"), gpus);
  }
  if (!figure.tasks) { return; }
  if (settings.ranks && *settings.ranks != *figure.tasks) {
    lines.refuse("{} in this file is of {}, and --ranks says {}: leave --ranks out", figure.what,
                 counted(*figure.tasks, "process", "processes"), *settings.ranks);
  }
  const bool is_usual = *figure.tasks == nodes || *figure.tasks == nodes * gpus || gpus == 0;
  if (!settings.ranks && !is_usual) {
    lines.refuse(
        "{} in this file is of {}, one for each GPU or each node, and {} with {} are {}: correct --nodes and "
        "--gpus-per-node, or give --ranks {} if they share GPUs or nodes",
        figure.what, counted(*figure.tasks, "process", "processes"), counted(nodes, "node"),
        counted(gpus, "GPU"), counted(nodes * gpus, "GPU"), *figure.tasks);
  }
}

}  // namespace

nlohmann::json trial_of(const TrainingFigure& figure, const ImportSettings& settings,
                        const LineReader& lines) {
  auto record = record_of(settings, lines);
  const auto& case_name = settings.case_name.empty() ? figure.case_name : settings.case_name;
  if (case_name.empty()) {
    lines.refuse("this file names no case: give --case, or import a folder of ARM/CASE/PAIR.log files");
  }
  if (figure.nodes && settings.nodes && *figure.nodes != *settings.nodes) {
    lines.refuse("{} in this file is of {}, and --nodes says {}: leave --nodes out", figure.what,
                 counted(*figure.nodes, "node"), *settings.nodes);
  }
  const auto nodes = figure.nodes ? figure.nodes : settings.nodes;
  if (!nodes) { lines.refuse("this file cannot say how many nodes its processes ran on: give --nodes"); }
  std::optional<std::int64_t> gpus = settings.gpus_per_node ? settings.gpus_per_node : figure.gpus_per_node;
  if (!gpus && figure.gpus && *figure.gpus % *nodes == 0) { gpus = *figure.gpus / *nodes; }
  if (gpus && *gpus > 0 && figure.gpus && *figure.gpus != *nodes * *gpus) {
    lines.refuse(
        "{} in this file is of {}, which are not {} with {} each: correct --nodes, --gpus-per-node or both",
        figure.what, counted(*figure.gpus, "GPU"), counted(*nodes, "node"), *gpus);
  }
  if (figure.batch_size && settings.batch_size && *figure.batch_size != *settings.batch_size) {
    lines.refuse("{} in this file is of batch size {}, and --batch-size says {}", figure.what,
                 *figure.batch_size, *settings.batch_size);
  }
  if (!gpus) {
    lines.refuse("this file cannot say how many GPUs a node had: give --gpus-per-node (0 for none)");
  }
  check_shape(figure, settings, *nodes, *gpus, lines);
  const auto devices = settings.ranks.value_or(*nodes * std::max<std::int64_t>(*gpus, 1));
  if (devices > 1 && figure.scope && settings.scope && *figure.scope != *settings.scope) {
    lines.refuse("{} in this file has the scope {}: leave --scope out, or give --scope {}", figure.what,
                 to_string(*figure.scope), to_string(*figure.scope));
  }
  const auto scope = figure.scope ? figure.scope : settings.scope;
  if (devices > 1 && !scope) {
    lines.refuse(
        "the file cannot tell whether {} is of one of {} ranks or of the whole job: give "
        "--scope rank or --scope trial",
        figure.what, devices);
  }
  const bool of_one = scope == Scope::rank;
  record.update({{"record", "trial"}, {"case", case_name}, {"nodes", *nodes}, {"gpus_per_node", *gpus}});
  record["images_per_second"] = figure.images_per_second * (of_one ? static_cast<double>(devices) : 1.0);
  record["pair"] = value_json(settings.pair);
  record["batch_size"] = value_json(settings.batch_size ? settings.batch_size : figure.batch_size);
  record["precision"] = value_json(settings.precision);
  record["virtualization"] = value_json(settings.virtualization);
  record["started_at"] = value_json(settings.started_at);
  record["environment"] = figure.environment;
  return record;
}

void LeftOut::add(std::string_view name) {
  constexpr std::size_t most_names = 400, longest_name_bytes = 120;
  ++count_;
  const auto shown = excerpt(name, longest_name_bytes);
  if (names_.size() < most_names || names_.contains(shown)) { ++names_[shown]; }
}

void LeftOut::report(RecordImporter& importer) const {
  if (count_ == 0) { return; }
  importer.leave_out(count_);
  std::vector<std::string> words;
  for (const auto& [name, count] : names_) {
    words.push_back(name + (count > 1 ? fmt::format(" ({})", count) : ""));
  }
  importer.note("left out: " + join(words, ", "));
}

std::string in_unit(std::string_view name, std::string_view unit) {
  return fmt::format("{} in {}", name, unit.empty() ? "no unit" : unit);
}

std::optional<ProbeUnit> probe_unit_of(std::string_view unit) {
  static const std::map<std::string_view, ProbeUnit> units = {{"B/s", {"B/s", 1}},
                                                              {"kB/s", {"B/s", 1e3}},
                                                              {"KB/s", {"B/s", 1e3}},
                                                              {"MB/s", {"B/s", 1e6}},
                                                              {"GB/s", {"B/s", 1e9}},
                                                              {"TB/s", {"B/s", 1e12}},
                                                              {"KB/sec", {"B/s", 1e3}},
                                                              {"MB/sec", {"B/s", 1e6}},
                                                              {"GB/sec", {"B/s", 1e9}},
                                                              {"KiB/s", {"B/s", 1024.0}},
                                                              {"MiB/s", {"B/s", 1048576.0}},
                                                              {"GiB/s", {"B/s", 1073741824.0}},
                                                              {"Gbit/s", {"B/s", 1.25e8}},
                                                              {"Mbit/s", {"B/s", 1.25e5}},
                                                              {"Gbits/sec", {"B/s", 1.25e8}},
                                                              {"Mbits/sec", {"B/s", 1.25e5}},
                                                              {"Gbps", {"B/s", 1.25e8}},
                                                              {"Mbps", {"B/s", 1.25e5}},
                                                              {"Kbps", {"B/s", 125}},
                                                              {"s", {"s", 1}},
                                                              {"seconds", {"s", 1}},
                                                              {"ms", {"s", 1e-3}},
                                                              {"us", {"s", 1e-6}},
                                                              {"ns", {"s", 1e-9}},
                                                              {"Gflops", {"FLOP/s", 1e9}},
                                                              {"GFLOPS", {"FLOP/s", 1e9}},
                                                              {"GFLOP/s", {"FLOP/s", 1e9}},
                                                              {"Gflop/s", {"FLOP/s", 1e9}},
                                                              {"TFLOP/s", {"FLOP/s", 1e12}},
                                                              {"TFLOPS", {"FLOP/s", 1e12}},
                                                              {"Tflop/s", {"FLOP/s", 1e12}},
                                                              {"Gflops/seconds", {"FLOP/s", 1e9}}};
  const auto found = units.find(unit);
  return found == units.end() ? std::nullopt : std::optional(found->second);
}

bool is_images_per_second(std::string_view unit) {
  static const std::set<std::string, std::less<>> units = {"images/s", "images/sec",       "images/second",
                                                           "img/s",    "img/sec",          "imgs/s",
                                                           "imgs/sec", "images_per_second"};
  return units.contains(unit);
}

}  // namespace virtrain::results
