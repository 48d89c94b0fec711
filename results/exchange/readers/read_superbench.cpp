// The format is that of microsoft/superbenchmark, superbench/runner/runner.py: a JSON object a node, whose
// keys are BENCHMARK/[RUN/]METRIC[:RANK]. Units are those of its docs/user-tutorial/benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/records/exchange_columns.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// One training benchmark of a node: the same case, by run.
struct Training {
  std::string precision;
  std::map<std::string, std::map<std::int64_t, double>>
      by_run;  ///< run, rank, images per second; -1: no rank
};

/// Our export's name for a precision that it does not know.
constexpr std::string_view unknown_precision = "unknown";

/// The parts of a metric's key; views into it.
struct Metric {
  const std::string& key;
  std::string_view benchmark, run, name;
  std::optional<std::int64_t> rank;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

/// Whether the text has small letters and digits alone, as precisions and data types have.
bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_lower(c) || is_digit(c); });
}

/// Whether it is of this benchmark, whatever a run of it is called ("nccl-bw:nvlink"), and nothing is below.
bool is_benchmark(const Metric& metric, std::string_view name) {
  return metric.benchmark.starts_with(name) && metric.benchmark.find('/') == std::string_view::npos;
}

class SuperBenchReader {
 public:
  SuperBenchReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      if (!trim(lines_.line()).empty()) { read_node(parse_record(lines_)); }
    }
    if (importer_.report().trials + importer_.report().probes == 0) {
      lines_.refuse(
          "no metric of it is an image model's training throughput, a collective, a copy or a GEMM rate");
    }
    left_out_.report(importer_);
  }

 private:
  void read_node(const json& node) {
    if (!node.is_object() || !node.contains("node") || !node["node"].is_string()) {
      lines_.refuse("a JSON object with the text \"node\" was expected here");
    }
    node_ = node["node"].get<std::string>();
    trainings_.clear();
    probes_.clear();
    for (const auto& [metric, value] : node.items()) {
      if (metric != "node" && !value.is_null() && !read_metric(metric, value)) {
        left_out_.add(without_indices(metric));
      }
    }
    for (const auto& [name, training] : trainings_) { add_trials(name, training); }
    for (const auto& [key, probe] : probes_) { add_probe(key, probe); }
  }

  double number(const std::string& metric, const json& value) const {
    if (!value.is_number()) {
      lines_.refuse("{} is {}, it must be a number", excerpt(metric), excerpt(dump_json(value)));
    }
    return value.get<double>();
  }

  std::int64_t whole(const std::string& metric, std::string_view digits) const {
    const auto value = parse_integer(digits);
    if (!value) { lines_.refuse("{}: {} is not a valid count", excerpt(metric), excerpt(digits)); }
    return *value;
  }

  /// The key without run and rank, which say nothing of what it measures.
  std::string without_indices(const std::string& key) const {
    const Metric metric = take_apart(key);
    return metric.benchmark.empty() ? std::string(metric.name)
                                    : fmt::format("{}/{}", metric.benchmark, metric.name);
  }

  /// Whether the metric is one of those that are kept.
  bool read_metric(const std::string& key, const json& value) {
    const Metric metric = take_apart(key);
    return read_training(metric, value) || read_collective(metric, value) || read_copy(metric, value) ||
           read_gemm(metric, value);
  }

  /// BENCHMARK/[RUN/]NAME[:RANK]
  Metric take_apart(const std::string& key) const {
    Metric metric{key, {}, {}, {}, {}};
    std::string_view rest = key;
    const auto slash = rest.rfind('/');
    metric.name = slash == rest.npos ? rest : rest.substr(slash + 1);
    rest = slash == rest.npos ? std::string_view() : rest.substr(0, slash);
    if (const auto colon = metric.name.rfind(':'); colon != metric.name.npos && slash != rest.npos) {
      if (is_number(metric.name.substr(colon + 1))) {
        metric.rank = whole(key, metric.name.substr(colon + 1));
        metric.name = metric.name.substr(0, colon);
      }
    }
    const auto before_run = rest.rfind('/');
    if (before_run != rest.npos && is_number(rest.substr(before_run + 1))) {
      metric.run = rest.substr(before_run + 1);
      rest = rest.substr(0, before_run);
    }
    metric.benchmark = rest;
    return metric;
  }

  /// GROUP/MODEL/[RUN/]fp16_train_throughput[:RANK], earlier throughput_train_float16
  bool read_training(const Metric& metric, const json& value) {
    static constexpr std::string_view suffix = "_train_throughput", prefix = "throughput_train_";
    std::string_view precision = metric.name;
    if (precision.ends_with(suffix)) {
      precision.remove_suffix(suffix.size());
    } else if (precision.starts_with(prefix)) {
      precision.remove_prefix(prefix.size());
    } else {
      return false;
    }
    const auto slash = metric.benchmark.rfind('/');
    if (slash == std::string_view::npos || slash == 0 || !is_word(precision)) { return false; }
    const auto model = metric.benchmark.substr(slash + 1);
    static constexpr std::array families = {"resnet",    "vgg",     "densenet",  "inception",
                                            "mobilenet", "alexnet", "googlenet", "virtrain-"};
    const auto is_of = [&](const char* family) { return model.find(family) != model.npos; };
    if (std::ranges::none_of(families, is_of)) { return false; }
    auto& one = trainings_[case_of(metric.benchmark.substr(0, slash), model, precision)];
    one.precision = precision_name(precision);
    one.by_run[std::string(metric.run)][metric.rank.value_or(-1)] = number(metric.key, value);
    return true;
  }

  /// nccl-bw/[RUN/]allreduce_8388608_busbw[:RANK]
  bool read_collective(const Metric& metric, const json& value) {
    if (!is_benchmark(metric, "nccl-bw") && !is_benchmark(metric, "rccl-bw")) { return false; }
    static const std::map<std::string_view, std::string> names = {
        {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"}};
    Scanner in(metric.name);
    const auto operation = in.take_while(is_lower);
    if (operation.empty() || !in.take("_")) { return false; }
    const auto size = in.take_while(is_digit);
    const auto kind = in.rest();
    if (size.empty() || (kind != "_algbw" && kind != "_busbw" && kind != "_time")) { return false; }
    const double figure = number(metric.key, value);
    auto& probe = probes_[fmt::format("{}/{}/{}/{}/{}", metric.benchmark, metric.run, operation, size,
                                      metric.rank.value_or(-1))];
    const auto known = names.find(operation);
    probe["name"] = known == names.end() ? std::string(operation) : known->second;
    probe["unit"] = "B/s";
    probe["size_bytes"] = whole(metric.key, size);
    probe["detail"]["benchmark"] = metric.benchmark;
    add_run_name(metric, probe);
    if (metric.rank) { probe["detail"]["rank"] = *metric.rank; }
    if (kind == "_algbw") { probe["value"] = figure * bytes_per_gigabyte; }
    if (kind == "_busbw") { probe["bus_bytes_per_second"] = figure * bytes_per_gigabyte; }
    if (kind == "_time" && figure > 0) { probe["seconds"] = figure * seconds_per_microsecond; }
    return true;
  }

  /// mem-bw/[RUN/]h2d_bw[:RANK], earlier H2D_Mem_BW
  bool read_copy(const Metric& metric, const json& value) {
    static const std::map<std::string_view, std::string> names = {
        {"h2d", "host_to_device"}, {"d2h", "device_to_host"}, {"d2d", "device_copy"}};
    if (!is_benchmark(metric, "mem-bw") || metric.name.size() < 3) { return false; }
    const auto known = names.find(lower(std::string(metric.name.substr(0, 3))));
    const auto rest = metric.name.substr(3);
    const bool is_rate = rest == "_bw" || rest == "_BW" || rest == "_Mem_bw" || rest == "_Mem_BW";
    if (known == names.end() || !is_rate) { return false; }
    add_rate(metric, known->second, "B/s", number(metric.key, value));
    return true;
  }

  /// gemm-flops/[RUN/]fp16_tc_flops[:RANK]
  bool read_gemm(const Metric& metric, const json& value) {
    static constexpr std::string_view suffix = "_flops", with_tensor_cores = "_tc";
    if (!is_benchmark(metric, "gemm-flops") || !metric.name.ends_with(suffix)) { return false; }
    const auto type = metric.name.substr(0, metric.name.size() - suffix.size());
    const auto word = type.substr(0, type.size() - (type.ends_with(with_tensor_cores) ? 3 : 0));
    if (!is_word(word)) { return false; }
    add_rate(metric, "gpu_gemm", "FLOP/s", number(metric.key, value));
    probes_[metric.key]["data_type"] = type;
    return true;
  }

  /// "resnet/pytorch-resnet50/fp16" of model-benchmarks:resnet/pytorch-resnet50/fp16_train_throughput.
  static std::string case_of(std::string_view benchmark, std::string_view model, std::string_view precision) {
    const auto colon = benchmark.find(':');
    const auto group = colon == benchmark.npos ? benchmark : benchmark.substr(colon + 1);
    return fmt::format("{}/{}/{}", group, model, precision_name(precision));
  }

  void add_rate(const Metric& metric, const std::string& name, const char* unit, double value) {
    auto& probe = probes_[metric.key];
    probe = {{"name", name},
             {"unit", unit},
             {"value", value * bytes_per_gigabyte},
             {"detail", {{"metric", metric.key}}}};
    add_run_name(metric, probe);
    if (metric.rank) { probe["detail"]["rank"] = *metric.rank; }
  }

  /// "gdr-only" of nccl-bw:gdr-only: what a run of a benchmark is called tells its settings from another's.
  static void add_run_name(const Metric& metric, json& probe) {
    const auto colon = metric.benchmark.find(':');
    if (colon == metric.benchmark.npos) { return; }
    probe["detail"]["settings"] = {{"run", metric.benchmark.substr(colon + 1)}};
  }

  void add_probe(const std::string& key, json probe) {
    if (!probe.contains("value")) {
      left_out_.add(without_indices(key));  // a bus bandwidth or a time without the algorithm's bandwidth
      return;
    }
    probe.update(record_of(settings_, lines_));
    probe["record"] = "probe";
    probe["node"] = node_;
    probe["nodes"] = 1;
    probe["detail"]["source"] = "superbench";
    importer_.add(probe, lines_.position());
  }

  void add_trials(const std::string& case_name, const Training& training) {
    for (const auto& [run, ranks] : training.by_run) {
      json record = record_of(settings_, lines_);
      const auto [gpus, throughput] = throughput_of(case_name, ranks);
      record.update(
          {{"record", "trial"}, {"nodes", 1}, {"gpus_per_node", gpus}, {"images_per_second", throughput}});
      mark_missing(case_name, ranks, record);
      record["case"] = settings_.case_name.empty() ? case_name : settings_.case_name;
      record["precision"] = training.precision == unknown_precision ? json() : json(training.precision);
      record["batch_size"] = value_json(settings_.batch_size);
      record["virtualization"] = value_json(settings_.virtualization);
      record["started_at"] = value_json(settings_.started_at);
      record["environment"] = {{"source", "superbench"}, {"node", node_}};
      importer_.add(record, lines_.position());
    }
  }

  /// GPUs of the node and the throughput of all of them. SuperBench's figure is that of one GPU.
  std::pair<std::int64_t, double> throughput_of(const std::string& case_name,
                                                const std::map<std::int64_t, double>& ranks) const {
    double sum = 0;
    for (const auto& [rank, value] : ranks) { sum += rank >= 0 || ranks.size() == 1 ? value : 0; }
    if (const auto last = ranks.rbegin()->first; last >= 0) {
      check_beside_ranks(case_name, ranks, sum);
      if (settings_.gpus_per_node && *settings_.gpus_per_node != last + 1) {
        lines_.refuse("the throughput of {} is of {}, and --gpus-per-node says {}: leave --gpus-per-node out",
                      case_name, counted(last + 1, "rank"), *settings_.gpus_per_node);
      }
      return {last + 1, sum};
    }
    if (!settings_.gpus_per_node) {
      lines_.refuse(
          "the throughput of {} is given without ranks: of how many GPUs is the node? give --gpus-per-node",
          case_name);
    }
    const std::int64_t gpus = *settings_.gpus_per_node;
    if (gpus > 1 && !settings_.scope) {
      lines_.refuse(
          "the throughput of {} is given without ranks, and the file cannot tell whether it is "
          "of one GPU or of the whole node: give --scope rank or --scope trial",
          case_name);
    }
    const bool of_one_gpu = settings_.scope == Scope::rank;
    return {gpus, of_one_gpu ? sum * static_cast<double>(gpus) : sum};
  }

  /// A figure without a rank beside those of ranks is one of them all: their mean or their sum, no more GPUs.
  void check_beside_ranks(const std::string& case_name, const std::map<std::int64_t, double>& ranks,
                          double sum) const {
    const auto found = ranks.find(-1);
    if (found == ranks.end()) { return; }
    constexpr double give = 0.05;
    const auto [low, high] = std::minmax_element(
        std::next(ranks.begin()), ranks.end(),
        [](const auto& first, const auto& second) { return first.second < second.second; });
    const bool is_of_one =
        found->second >= (1 - give) * low->second && found->second <= (1 + give) * high->second;
    const bool is_sum = std::abs(found->second - sum) <= give * sum;
    if (!is_of_one && !is_sum) {
      lines_.refuse(
          "the throughput of {} is {} without a rank, and {} is the sum of its ranks: they do not belong "
          "together",
          case_name, found->second, sum);
    }
    importer_.note(fmt::format("{}: the figure without a rank ({}) is left out, those of its ranks are there",
                               excerpt(case_name), found->second));
  }

  /// A node of which a rank is missing has no throughput that could be compared.
  void mark_missing(const std::string& case_name, const std::map<std::int64_t, double>& ranks,
                    json& record) const {
    std::int64_t expected = 0;
    for (const auto& [rank, value] : ranks) {
      if (rank > expected) { break; }
      expected = rank + 1;
    }
    if (expected > ranks.rbegin()->first) { return; }
    const auto words = fmt::format("rank {} of {} has no throughput: the sum is not that of the node",
                                   expected, ranks.rbegin()->first + 1);
    record["valid"] = false;
    record["invalid_reason"] = words;
    importer_.note(fmt::format("the trial of {} has no verdict: {}", excerpt(case_name), words));
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::string node_;
  std::map<std::string, Training> trainings_;
  std::map<std::string, json> probes_;
  LeftOut left_out_;
};

}  // namespace

void read_superbench(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  SuperBenchReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
