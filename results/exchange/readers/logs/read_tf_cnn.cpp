// The formats are those of tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py: print_info()
// writes the preamble, benchmark_one_step() the lines, and the loop's end the total, which counts all
// workers: num_workers * steps * batch_size / seconds. Under Horovod each process may print it, or rank 0
// alone. All versions print a line of dashes before and behind the total.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/logs/mark_fall.h"
#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/readers/logs/step_lines.h"
#include "results/exchange/readers/rank_tag.h"
#include "results/exchange/readers/readers.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Each rank may print one.
constexpr std::size_t most_totals = 100'000;

/// Speed in the lines of one step, all processes together.
struct MeanSpeed {
  double sum = 0;  ///< of the lines' figures
  std::int64_t lines = 0;
  std::int64_t first_line = 0;
  double give = 0;       ///< half a unit of the last digit
  bool is_mean = false;  ///< of all steps so far, as where "+/-" follows; else of the last ones
};

/// Contents of one log.
struct TfLog {
  std::string model, variables;
  std::optional<std::int64_t> global_batch, device_batch;
  std::optional<std::int64_t> listed;         ///< devices that the preamble lists, of all processes
  bool on_gpus = false;                       ///< whether those are GPUs
  bool has_workers = false;                   ///< listed are those of one worker of several machines
  bool lists_all_ranks = false;               ///< listed are those of all of Horovod's ranks
  std::int64_t lists = 0, listed_by_all = 0;  ///< lines of devices, and those of all of them
  std::int64_t processes = 1;                 ///< that listed their own devices each
  std::int64_t unread_lines = 0;              ///< of steps
  std::int64_t wild_losses = 0;               ///< steps whose loss is NaN or infinite
  std::vector<double> totals;                 ///< one for each process that printed it
  std::int64_t last_step = 0;
  std::optional<double> loss_first, loss_last;
  std::map<std::int64_t, MeanSpeed> speeds;  ///< by step
  std::int64_t total_line = 0;               ///< of the latest total
  std::string again_at;          ///< where a preamble stands behind a total, and that total's line
  std::string first_model;       ///< of the first preamble
  std::int64_t first_batch = 0;  ///< of a device, likewise
  std::string first_devices;     ///< likewise
  bool is_mixed = false;         ///< preambles name several models or batches of a device
  bool lists_differ = false;     ///< and devices
  bool is_one_job() const { return has_workers || lists_all_ranks || variables == "horovod"; }

  /// Devices of the whole job; nothing if the preamble is not there.
  std::optional<std::int64_t> devices() const {
    const bool has_batches = global_batch && device_batch;
    if (listed && !(has_workers && has_batches)) { return listed; }
    return has_batches ? std::optional(*global_batch / *device_batch) : std::nullopt;
  }
};

/// The text behind a label of the preamble, "Model:       resnet50"; nothing if the line has another one.
std::optional<std::string_view> preamble(std::string_view line, std::string_view label) {
  if (!line.starts_with(label)) { return std::nullopt; }
  return trim(line.substr(label.size()));
}

/// "64", or "1024.0" of versions that divide by the number of devices.
std::int64_t batch_of(const LineReader& lines, std::string_view text) {
  const auto words = words_of(text);
  const auto value = words.empty() ? std::nullopt : parse_number(words[0]);
  constexpr double most = 1e12;
  if (!value || *value < 1 || *value > most || *value != std::floor(*value)) {
    lines.refuse("the batch size \"{}\" is not a whole number above zero", excerpt(text));
  }
  return static_cast<std::int64_t>(*value);
}

/// "['horovod/gpu:0', 'horovod/gpu:1']", of the whole job; without Horovod "['/gpu:0', '/gpu:1']", of a
/// process.
void read_devices(std::string_view list, TfLog& log) {
  const auto count = [&](std::string_view kind) {
    std::int64_t found = 0;
    for (auto at = list.find(kind); at != list.npos; at = list.find(kind, at + kind.size())) { ++found; }
    return found;
  };
  const auto gpus = count("gpu:");
  log.on_gpus = gpus > 0;
  log.has_workers = list.find("job:worker") != list.npos;
  log.lists_all_ranks = list.find("horovod/") != list.npos;
  const auto devices = gpus > 0 ? gpus : count("cpu:");
  if (devices == 0) { return; }
  log.listed = devices;
  log.listed_by_all += devices;
  ++log.lists;
}

void read_preamble(const LineReader& lines, std::string_view line, TfLog& log) {
  if (const auto model = preamble(line, "Model:")) { log.model = *model; }
  if (const auto variables = preamble(line, "Variables:")) { log.variables = *variables; }
  if (const auto devices = preamble(line, "Devices:")) { read_devices(*devices, log); }
  if (const auto mode = preamble(line, "Mode:"); mode && !mode->starts_with("training")) {
    lines.refuse(
        "the mode of this run is \"{}\": its images/sec are not those of training; give logs of training",
        excerpt(*mode));
  }
  if (const auto batch = preamble(line, "Batch size:"); batch && batch->ends_with("global")) {
    log.global_batch = batch_of(lines, *batch);
  }
  // Below "Batch size:", indented as tf_cnn_benchmarks prints it or not, as some tools that keep logs leave
  // it.
  const auto words = words_of(line);
  if (words.size() == 3 && words[1] == "per" && words[2] == "device") {
    log.device_batch = batch_of(lines, line);
  }
}

/// Where a preamble stands behind a total another run, or another process' copy of the log, begins.
void notice_restart(const LineReader& lines, std::string_view line, TfLog& log) {
  const auto model = preamble(line, "Model:"), devices = preamble(line, "Devices:");
  const bool is_preamble = model || devices || preamble(line, "Batch size:");
  if (is_preamble && log.total_line > 0 && log.again_at.empty()) {
    log.again_at = fmt::format("a preamble begins on line {}, behind the total on line {}", lines.number(),
                               log.total_line);
  }
  if (model && log.first_model.empty()) { log.first_model = *model; }
  if (devices && log.first_devices.empty()) { log.first_devices = *devices; }
  log.is_mixed = log.is_mixed || (model && *model != log.first_model) ||
                 (log.device_batch && log.first_batch > 0 && *log.device_batch != log.first_batch);
  log.lists_differ = log.lists_differ || (devices && *devices != log.first_devices);
  if (log.first_batch == 0) { log.first_batch = log.device_batch.value_or(0); }
}

/// 204.8 of "10<tab>images/sec: 204.8 +/- 0.1 (jitter = 0.6)<tab>9.228".
void read_speed(std::string_view line, std::int64_t step, std::int64_t number, TfLog& log) {
  constexpr std::size_t most_steps = 1'000'000;
  const auto said = step_line(LineFormat::tf_cnn_benchmarks, line);
  if (!said || (log.speeds.size() == most_steps && !log.speeds.contains(step))) { return; }
  auto& mean = log.speeds[step];
  if (mean.lines == 0) { mean.first_line = number; }
  mean.sum += said->speed;
  ++mean.lines;
  const auto word = word_behind(line.substr(line.find('\t') + 1), "images/sec").value_or("");
  const auto point = word.find('.');
  mean.give = 0.5 * std::pow(10.0, point == word.npos ? 0.0 : -static_cast<double>(word.size() - point - 1));
  mean.is_mean = said->is_mean;
}

/// The speed between one line and the next. Lines give the mean over all steps so far, which hides a fall:
/// the time that the steps took is the number of them over that mean. Lines that are too near to each other
/// for their digits are taken together, and steps that not all processes printed are left out.
std::vector<StepSpeed> speeds_between(const TfLog& log) {
  constexpr double most_give = 0.1;  // of the time between two lines
  std::int64_t most_lines = 0;
  for (const auto& [step, mean] : log.speeds) { most_lines = std::max(most_lines, mean.lines); }
  std::vector<StepSpeed> speeds;
  double steps_before = 0, time_before = 0, give_before = 0;
  for (const auto& [step, mean] : log.speeds) {
    if (mean.lines != most_lines) { continue; }
    const double speed = mean.sum / static_cast<double>(mean.lines);
    if (!mean.is_mean) {
      speeds.push_back({speed, mean.first_line});
      continue;
    }
    const auto steps = static_cast<double>(step);
    const double time = steps / speed, give = time * mean.give / speed;
    const double between = time - time_before;
    if (between <= 0 || give + give_before > most_give * between) { continue; }
    speeds.push_back({(steps - steps_before) / between, mean.first_line});
    steps_before = steps;
    time_before = time;
    give_before = give;
  }
  return speeds;
}

/// "10<tab>images/sec: 204.8 +/- 0.1 (jitter = 0.6)<tab>9.228", with more behind the loss (accuracies, an
/// epoch) or not; with --display_perf_ewma only the speed. The total is what counts: a step's line that is
/// like none of these is passed over.
void read_step(std::string_view line, std::int64_t number, TfLog& log) {
  const auto first = line.find('\t'), second = line.find('\t', first + 1);
  const auto step = parse_integer(trim(line.substr(0, first)));
  const auto cell =
      second == line.npos ? "" : line.substr(second + 1, line.find('\t', second + 1) - second - 1);
  const auto word = trim(cell).substr(0, trim(cell).find(' '));
  if (!step || *step < 1 || word.empty()) {
    ++log.unread_lines;
    return;
  }
  log.last_step = std::max(log.last_step, *step);
  read_speed(line, *step, number, log);
  const auto loss = parse_number(word);
  if (!loss) {
    ++(is_letter(word.back()) ? log.wild_losses : log.unread_lines);
    return;
  }
  if (!log.loss_first) { log.loss_first = loss; }
  log.loss_last = loss;
}

TfLog read_log(LineReader& lines) {
  constexpr std::string_view rule = "--------";  // the start of one
  TfLog log;
  std::int64_t open_totals = 0;
  while (lines.next()) {
    const auto line = without_rank_tag(lines.line());
    if (const auto total = preamble(line, "total images/sec:")) {
      const auto value = parse_number(*total);
      if (!value || *value <= 0) {
        lines.refuse("the total \"{}\" is not a finite number above zero", excerpt(*total));
      }
      if (log.totals.size() == most_totals) { lines.refuse("more than {} lines of totals", most_totals); }
      log.totals.push_back(*value);
      log.total_line = lines.number();
      ++open_totals;
    } else if (line.starts_with(rule)) {
      open_totals = std::max<std::int64_t>(open_totals - 1, 0);
    } else if (line.find("\timages/sec:") != line.npos) {
      read_step(line, lines.number(), log);
    } else {
      read_preamble(lines, line, log);
      notice_restart(lines, line, log);
    }
  }
  if (log.totals.empty()) {
    refuse_disguised(lines);
    lines.refuse("the log ends without its line \"total images/sec: N\": the run did not finish");
  }
  if (open_totals > 0) {
    lines.refuse(
        "the log ends without the line of dashes behind \"total images/sec\": it broke off, and the total {} "
        "may be the start of a longer number; get a fresh copy of the log",
        log.totals.back());
  }
  return log;
}

/// Refuses a file of several runs: their settings would be taken for those of one. Processes that know
/// nothing of each other may follow each other where the user says so.
void refuse_several_runs(const LineReader& lines, const TfLog& log, const ImportSettings& settings) {
  if (log.again_at.empty()) { return; }
  const bool are_equal =
      std::ranges::all_of(log.totals, [&](double total) { return total == log.totals.front(); });
  const bool is_whole = settings.scope == Scope::trial && (log.lists_differ || !are_equal);
  if (log.is_one_job() || log.totals.size() == 1 || is_whole || (log.is_mixed && settings.scope)) {
    lines.refuse("{}: two runs in one file, which cannot be one trial; split it, a file for each run",
                 log.again_at);
  }
}

/// Refuses several totals of which nobody said whose they are: their devices cannot be counted either.
void require_scope(const LineReader& lines, const TfLog& log, const ImportSettings& settings) {
  const bool of_parts = settings.scope == Scope::rank || settings.scope == Scope::tenant;
  if (log.totals.size() > 1 && log.is_one_job() && of_parts) {
    const auto [low, high] = std::minmax_element(log.totals.begin(), log.totals.end());
    lines.refuse(
        "{} lines \"total images/sec\" of {} to {}, and each is of the whole job{}: leave --scope {} out",
        log.totals.size(), *low, *high,
        log.variables.empty() ? "" : ", as \"Variables: " + excerpt(log.variables) + "\" says",
        to_string(*settings.scope));
  }
  const bool are_equal =
      std::ranges::all_of(log.totals, [&](double total) { return total == log.totals.front(); });
  if (log.totals.size() > 1 && are_equal && of_parts && log.variables.empty()) {
    lines.refuse(
        "{} totals, all {}, and no line \"Variables:\" says whose: equal to the last digit they are of one "
        "job, and "
        "--scope {} would add them up; give --scope trial, or the log of each process as a file of its own",
        log.totals.size(), log.totals.front(), to_string(*settings.scope));
  }
  if (log.totals.size() > 1 && !settings.scope && !log.is_one_job()) {
    lines.refuse(
        "{} lines \"total images/sec\", and the file cannot tell whether each is of one rank or of the whole "
        "job: give --scope trial (each is of the whole job, as Horovod's ranks print it), --scope rank or "
        "--scope tenant",
        log.totals.size());
  }
}

/// Processes that know nothing of each other (mpirun without Horovod) list their own devices each, and have a
/// total each, of a rank or a tenant.
void count_processes(const LineReader& lines, TfLog& log, const ImportSettings& settings) {
  const bool has_own_totals = settings.scope == Scope::rank || settings.scope == Scope::tenant;
  if (log.lists < 2 || log.is_one_job() || !has_own_totals) { return; }
  if (log.lists != std::ssize(log.totals)) {
    lines.refuse("{} list devices, but there are {}: part of a process' log is missing",
                 counted(log.lists, "process", "processes"), counted(log.totals.size(), "total"));
  }
  log.processes = log.lists;
  log.listed = log.listed_by_all;
}

/// Nodes, devices and ranks of what one log measured.
struct TfShape {
  std::int64_t nodes = 1, gpus_per_node = 0;
  std::optional<std::int64_t> ranks_per_node;
};

/// `share`: of how many logs of the same trial this is one; the settings speak of the whole trial.
TfShape shape_of(const LineReader& lines, const TfLog& log, const ImportSettings& settings,
                 std::int64_t share) {
  TfShape shape;
  const auto per_log = [&](std::optional<std::int64_t> whole) {
    if (whole && *whole % share != 0) {
      lines.refuse("{} cannot be divided among {}; check --nodes and --ranks", *whole, counted(share, "log"));
    }
    return whole ? std::optional(*whole / share) : std::nullopt;
  };
  const auto nodes = per_log(settings.nodes);
  const auto said = per_log(settings.ranks);
  const auto ranks = log.devices() ? log.devices() : said;
  if (nodes) {
    shape.nodes = *nodes;
  } else if (ranks && settings.gpus_per_node && *settings.gpus_per_node > 0) {
    shape.nodes = std::max<std::int64_t>(*ranks / *settings.gpus_per_node, 1);
  } else if (!ranks || (*ranks > 1 && (log.variables == "horovod" || log.has_workers || log.processes > 1))) {
    lines.refuse("this log cannot say how many nodes its processes ran on: give --nodes");
  }
  if (ranks && *ranks % shape.nodes != 0) {
    lines.refuse("{} cannot be divided among {}; check --nodes and --ranks", counted(*ranks, "rank"),
                 counted(shape.nodes, "node"));
  }
  if (ranks) { shape.ranks_per_node = *ranks / shape.nodes; }
  if (settings.gpus_per_node) {
    shape.gpus_per_node = *settings.gpus_per_node;
  } else if (log.listed && shape.ranks_per_node) {
    shape.gpus_per_node = log.on_gpus ? *shape.ranks_per_node : 0;
  } else {
    lines.refuse("this log cannot say how many GPUs a node had: give --gpus-per-node (0 for none)");
  }
  const bool contradicts =
      log.on_gpus && shape.ranks_per_node && shape.gpus_per_node != *shape.ranks_per_node;
  if (contradicts) {
    lines.refuse("the log is of a run on {}, not of {} with {} each; check --nodes and --gpus-per-node",
                 counted(ranks.value_or(0), "GPU"), counted(shape.nodes, "node"), shape.gpus_per_node);
  }
  return shape;
}

/// Whose throughput a total is. Refuses what the file cannot tell, in words that say what to give.
Scope scope_of(const LineReader& lines, const TfLog& log, const ImportSettings& settings,
               const TfShape& shape) {
  if (settings.scope) { return *settings.scope; }
  const bool one_rank = shape.ranks_per_node == 1 && shape.nodes == 1;
  if (!log.global_batch && !one_rank) {
    lines.refuse(
        "without the lines \"Batch size: N global\" and \"Variables:\" the file cannot tell whether its "
        "total is of one rank or of the whole job: give --scope trial (of the whole job), --scope rank, or "
        "--ranks 1");
  }
  return Scope::trial;
}

/// Throughput of the log's whole job. One total for each of several ranks of one job differs by their clocks
/// only; the first one is taken.
double throughput_of(const LineReader& lines, const TfLog& log, Scope scope, const TfShape& shape) {
  if (scope == Scope::trial) {
    const auto [low, high] = std::minmax_element(log.totals.begin(), log.totals.end());
    if (*high > 1.5 * *low) {
      lines.refuse(
          "totals of {} and {} cannot both be of the whole job{}", *low, *high,
          log.is_one_job() ? ": the log is of several jobs, give a file for each" : "; is it --scope rank?");
    }
    return log.totals.front();
  }
  double sum = 0;
  for (const double total : log.totals) { sum += total; }
  const auto count = std::ssize(log.totals);
  const auto ranks = shape.ranks_per_node ? *shape.ranks_per_node * shape.nodes : count;
  if (scope == Scope::rank && count != ranks && log.processes == 1) {
    if (count != 1) { lines.refuse("{} totals of single ranks, but {}", count, counted(ranks, "rank")); }
    lines.refuse("the total of one rank out of {}; the others' are needed too", ranks);
  }
  return sum;
}

/// Totals of processes that should be alike and are not.
void note_imbalance(const TfLog& log, Scope scope, RecordImporter& importer) {
  if (scope == Scope::trial || log.totals.size() < 2) { return; }
  constexpr double alike = 0.9;
  const auto [low, high] = std::minmax_element(log.totals.begin(), log.totals.end());
  if (*low >= alike * *high) { return; }
  importer.note(
      fmt::format("the slowest of {} runs at {:.0f} % of the fastest ({} and {} images/s): they may share "
                  "a device or a link",
                  counted(log.totals.size(), "process", "processes"), 100 * *low / *high, figure_words(*low),
                  figure_words(*high)));
}

json tenant_of(const TfLog& log, std::int64_t index, std::int64_t nodes, double images_per_second) {
  json tenant = {{"tenant_index", index}, {"nodes", nodes}, {"images_per_second", images_per_second}};
  if (log.loss_first) { tenant["loss_first"] = *log.loss_first; }
  if (log.loss_last) { tenant["loss_last"] = *log.loss_last; }
  return tenant;
}

/// The tenants that one log stands for.
json tenants_of(const TfLog& log, Scope scope, const TfShape& shape, double throughput,
                std::int64_t first_index) {
  json tenants = json::array();
  if (scope == Scope::tenant && log.totals.size() > 1) {
    const auto nodes = std::max<std::int64_t>(shape.nodes / std::ssize(log.totals), 1);
    for (const double total : log.totals) {
      tenants.push_back(tenant_of(log, first_index + std::ssize(tenants), nodes, total));
    }
    return tenants;
  }
  tenants.push_back(tenant_of(log, first_index, shape.nodes, throughput));
  if (scope == Scope::rank) {
    for (std::int64_t rank = 0; rank < std::ssize(log.totals); ++rank) {
      tenants[0]["ranks"].push_back({{"rank", rank},
                                     {"size", std::ssize(log.totals)},
                                     {"images_per_second", log.totals[static_cast<std::size_t>(rank)]}});
    }
  }
  return tenants;
}

}  // namespace

void read_tf_cnn(const std::vector<TenantLog>& logs, const ImportSettings& settings,
                 RecordImporter& importer) {
  const LineReader& first = *logs.front().lines;
  json record = record_of(settings, first);
  if (settings.case_name.empty()) {
    first.refuse("this log names no case: give --case, or import a folder of ARM/CASE/PAIR.log files");
  }
  record.update({{"record", "trial"}, {"case", settings.case_name}, {"tenants", json::array()}});
  record["pair"] = value_json(settings.pair);
  record["precision"] = value_json(settings.precision);
  record["virtualization"] = value_json(settings.virtualization);
  record["started_at"] = value_json(settings.started_at);
  record["batch_size"] = value_json(settings.batch_size);
  double sum = 0;
  std::int64_t nodes = 0, next_index = 0;
  std::optional<std::int64_t> ranks = 0;  // nothing if a log does not list its devices
  for (const auto& [lines, index] : logs) {
    TfLog log = read_log(*lines);
    refuse_several_runs(*lines, log, settings);
    require_scope(*lines, log, settings);
    count_processes(*lines, log, settings);
    ranks = ranks && log.devices() ? std::optional(*ranks + *log.devices()) : std::nullopt;
    const auto shape = shape_of(*lines, log, settings, std::ssize(logs));
    const Scope scope = scope_of(*lines, log, settings, shape);
    const double throughput = throughput_of(*lines, log, scope, shape);
    const auto first_index = std::max(index, next_index);  // a log may be of several tenants
    for (auto& tenant : tenants_of(log, scope, shape, throughput, first_index)) {
      next_index = tenant["tenant_index"].get<std::int64_t>() + 1;
      record["tenants"].push_back(std::move(tenant));
    }
    sum += throughput;
    nodes += shape.nodes;
    if (log.wild_losses > 0) {
      importer.note(fmt::format("the loss of {} is NaN or infinite", counted(log.wild_losses, "step")));
    }
    if (log.unread_lines > 0) {
      importer.note(counted(log.unread_lines, "step's line", "steps' lines") +
                    " could not be read; the total was");
    }
    note_imbalance(log, scope, importer);
    mark_fall(record, speeds_between(log), *lines, importer);
    record["gpus_per_node"] = shape.gpus_per_node;
    record["ranks_per_node"] = value_json(shape.ranks_per_node);
    if (log.device_batch && settings.batch_size && *settings.batch_size != *log.device_batch) {
      lines->refuse(
          "the log has a batch of {} for each device, not of {}; check --batch-size, or leave it out",
          *log.device_batch, *settings.batch_size);
    }
    if (log.device_batch) { record["batch_size"] = *log.device_batch; }
    record["environment"] = {{"source", "tf_cnn_benchmarks"}, {"steps", log.last_step}};
    if (!log.model.empty()) { record["environment"]["model"] = log.model; }
    if (!log.variables.empty()) { record["environment"]["variables"] = log.variables; }
  }
  if (ranks && settings.ranks && *settings.ranks != *ranks) {
    first.refuse("the log is of a run of {}, not of {}; check --ranks, or leave it out",
                 counted(*ranks, "rank"), *settings.ranks);
  }
  record["images_per_second"] = sum;
  record["nodes"] = nodes;
  importer.add(record, first.position());
}

}  // namespace virtrain::results
