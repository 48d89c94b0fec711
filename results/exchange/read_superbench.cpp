// The format is that of microsoft/superbenchmark, superbench/runner/runner.py: a JSON object a node, whose
// keys are BENCHMARK/[RUN/]METRIC[:RANK]. Units are those of its docs/user-tutorial/benchmarks.
#include <fmt/format.h>

#include <map>
#include <regex>

#include "common/error.h"
#include "common/text.h"
#include "results/exchange/readers.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr double giga = 1e9;
constexpr double seconds_per_microsecond = 1e-6;

/// One training benchmark of a node: the same case, by run.
struct Training {
  std::string precision;
  std::map<std::string, std::map<std::int64_t, double>>
      by_run;  ///< run, rank, images per second; -1: no rank
};

/// fp32, fp16, … of "float32", "float16", ….
std::string precision_of(const std::string& name) {
  return name.starts_with("float") ? "fp" + name.substr(5) : name;
}

class SuperBenchReader {
 public:
  SuperBenchReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      if (!trim(lines_.line()).empty()) read_node(parse_record(lines_));
    }
    if (importer_.report().trials + importer_.report().probes == 0) {
      lines_.refuse(
          "no metric of it is an image model's training throughput, a collective, a copy or a GEMM rate");
    }
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
      if (metric != "node" && !value.is_null() && !read_metric(metric, value)) importer_.leave_out(1);
    }
    for (const auto& [name, training] : trainings_) add_trials(name, training);
    for (const auto& [key, probe] : probes_) add_probe(probe);
  }

  double number(const std::string& metric, const json& value) const {
    if (!value.is_number()) lines_.refuse(fmt::format("{} is {}, it must be a number", metric, value.dump()));
    return value.get<double>();
  }

  /// Whether the metric is one of those that are kept.
  bool read_metric(const std::string& metric, const json& value) {
    static const std::regex training(
        R"((.+)/([^/]*(?:resnet|vgg|densenet|inception|mobilenet|alexnet|googlenet)[^/]*)/(?:(\d+)/)?(?:([a-z0-9]+)_train_throughput|throughput_train_([a-z0-9]+))(?::(\d+))?)");
    static const std::regex collective(
        R"([nr]ccl-bw[^/]*/(?:(\d+)/)?([a-z]+)_(\d+)_(algbw|busbw|time)(?::(\d+))?)");
    static const std::regex copy(
        R"(mem-bw[^/]*/(?:(\d+)/)?(h2d|d2h|d2d|H2D|D2H|D2D)_(?:Mem_)?(?:bw|BW)(?::(\d+))?)");
    static const std::regex gemm(R"(gemm-flops[^/]*/(?:(\d+)/)?([a-z0-9]+(?:_tc)?)_flops(?::(\d+))?)");
    std::smatch match;
    if (std::regex_match(metric, match, training)) {
      auto& one = trainings_[case_of(match[1], match[2], match[4].matched ? match[4] : match[5])];
      one.precision = precision_of(match[4].matched ? match[4] : match[5]);
      one.by_run[match[3]][match[6].matched ? std::stoll(match[6]) : -1] = number(metric, value);
      return true;
    }
    if (std::regex_match(metric, match, collective)) {
      read_collective(match, number(metric, value));
      return true;
    }
    if (std::regex_match(metric, match, copy)) {
      static const std::map<char, std::string> ends = {{'h', "host"}, {'d', "device"}};
      const auto end = [&](std::size_t i) {
        return ends.at(static_cast<char>(std::tolower(match[2].str()[i])));
      };
      const bool inside = end(0) == end(2);
      add_rate(metric, inside ? "device_copy" : end(0) + "_to_" + end(2), "B/s", number(metric, value),
               match[3]);
      return true;
    }
    if (std::regex_match(metric, match, gemm)) {
      add_rate(metric, "gpu_gemm", "FLOP/s", number(metric, value), match[3]);
      probes_[metric]["data_type"] = match[2];
      return true;
    }
    return false;
  }

  /// "resnet/pytorch-resnet50/fp16" of model-benchmarks:resnet/pytorch-resnet50/fp16_train_throughput.
  std::string case_of(const std::string& benchmark, const std::string& model,
                      const std::string& precision) const {
    const auto colon = benchmark.find(':');
    const std::string group = colon == std::string::npos ? benchmark : benchmark.substr(colon + 1);
    return fmt::format("{}/{}/{}", group, model, precision_of(precision));
  }

  void read_collective(const std::smatch& match, double value) {
    static const std::map<std::string, std::string> names = {
        {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"}};
    const auto known = names.find(match[2]);
    auto& probe =
        probes_[fmt::format("{}/{}/{}/{}", match[1].str(), match[2].str(), match[3].str(), match[5].str())];
    probe["name"] = known == names.end() ? match[2].str() : known->second;
    probe["unit"] = "B/s";
    probe["size_bytes"] = std::stoll(match[3]);
    if (match[5].matched) probe["detail"]["rank"] = std::stoll(match[5]);
    const std::string kind = match[4];
    if (kind == "algbw") probe["value"] = value * giga;
    if (kind == "busbw") probe["bus_bytes_per_second"] = value * giga;
    if (kind == "time" && value > 0) probe["seconds"] = value * seconds_per_microsecond;
  }

  void add_rate(const std::string& key, const std::string& name, const char* unit, double value,
                const std::string& rank) {
    probes_[key] = {{"name", name}, {"unit", unit}, {"value", value * giga}, {"detail", {{"metric", key}}}};
    if (!rank.empty()) probes_[key]["detail"]["rank"] = std::stoll(rank);
  }

  void add_probe(json probe) {
    if (!probe.contains("value")) {
      importer_.leave_out(1);  // a bus bandwidth or a time without the algorithm's bandwidth
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
      record["case"] = settings_.case_name.empty() ? case_name : settings_.case_name;
      record["precision"] = training.precision;
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
    for (const auto& [rank, value] : ranks) sum += value;
    if (ranks.begin()->first >= 0) return {std::ssize(ranks), sum};
    if (!settings_.gpus_per_node) {
      lines_.refuse(
          fmt::format("the throughput of {} is given without ranks: of how many GPUs is the node? give "
                      "--gpus-per-node",
                      case_name));
    }
    const std::int64_t gpus = *settings_.gpus_per_node;
    if (gpus > 1 && !settings_.scope) {
      lines_.refuse(
          fmt::format("the throughput of {} is given without ranks, and the file cannot tell whether it is "
                      "of one GPU or of the whole node: give --scope rank or --scope trial",
                      case_name));
    }
    const bool of_one_gpu = settings_.scope == Scope::rank;
    return {gpus, of_one_gpu ? sum * static_cast<double>(gpus) : sum};
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::string node_;
  std::map<std::string, Training> trainings_;
  std::map<std::string, json> probes_;
};

}  // namespace

void read_superbench(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  SuperBenchReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
