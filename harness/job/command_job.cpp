#include "harness/job/command_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/job/gpu_environment.h"
#include "results/exchange/tool_output.h"
#include "results/store/probe_settings.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// A command may say a lot in hours: a megabyte a minute.
constexpr std::size_t most_command_output = std::size_t{64} << 20;
/// Between two looks at whether it stands still.
constexpr milliseconds look_period{1'000};
/// A command that says figures and stands still is ended after the one, or so many of its longest gaps.
constexpr nanoseconds least_silence = std::chrono::seconds(60);
constexpr int most_gaps = 10;
constexpr const char* not_found_hint = " (not found: is the program in the node, at this path?)";
constexpr int not_found_status = 127;

}  // namespace

CommandJob::CommandJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
                       RankNetwork network, bool crowded, const MpiDialect& mpi, int port)
    : TenantJob(io, placement, std::move(nodes), network, crowded, mpi),
      job_(*placement.workload.job),
      port_(port),
      others_(job_.figures) {}

asio::awaitable<void> CommandJob::launch(const std::string& /*program*/, std::chrono::seconds timeout) {
  timeout_ = timeout;
  if (network_ == RankNetwork::tcp) { co_await check_paths(); }
}

asio::awaitable<void> CommandJob::go() {
  released_ns_ = last_output_ns_ = monotonic_ns();
  auto words = nodes_.front().entry;
  for (auto& word : job_words(placement_)) { words.push_back(std::move(word)); }
  const bool in_each = job_.launch == JobLaunch::per_node || job_.launch == JobLaunch::torchrun;
  if (job_.launch == JobLaunch::mpirun) { words = started_by_mpirun(std::move(words), timeout_); }
  for (std::size_t node = 0; node < (in_each ? nodes_.size() : 1); ++node) {
    // torchrun starts ranks for all of them itself.
    const auto processes = job_.launch == JobLaunch::per_node ? nodes_[node].placed : 1;
    for (std::int64_t planned = 0; planned < processes; ++planned) { co_await start(node, words, planned); }
  }
}

std::map<std::string, std::string> CommandJob::environment_of(std::size_t node, std::int64_t planned) const {
  auto environment = TenantJob::environment_of(node, planned);
  std::int64_t before = 0, all = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    before += n < node ? nodes_[n].placed : 0;
    all += nodes_[n].placed;
  }
  if (const auto gpus = environment.find("CUDA_VISIBLE_DEVICES");
      gpus != environment.end() && job_.launch == JobLaunch::per_node) {
    gpus->second = share_of_gpus(gpus->second, planned, nodes_[node].placed);
  }
  const RankPlace place{.node = node,
                        .nodes = nodes_.size(),
                        .rank = before + planned,
                        .ranks = all,
                        .ranks_per_node = ranks_of(nodes_[node]),
                        .address = nodes_[0].address,
                        .interface = nodes_[node].interface,
                        .port = port_};
  for (const auto& [name, value] : job_environment(job_.launch, place, network_)) {
    environment.insert({name, value});
  }
  return environment;
}

// --- output

std::string CommandJob::name_of(std::size_t node, std::int64_t planned) const {
  const auto& all = placement_.nodes;
  const auto first = std::ranges::find(all, nodes_[node].hostname, &NodePlacement::hostname);
  for (auto one = first; one != all.end(); ++one) {
    if (one->host == first->host && planned-- == 0) { return one->hostname; }
  }
  return nodes_[node].hostname;
}

std::vector<FigureOwner> CommandJob::owners(FigureScope scope) const {
  std::vector<FigureOwner> all;
  if (scope == FigureScope::node) {
    for (const auto& process : processes_) { all.push_back({name_of(process->node, process->planned)}); }
  } else if (scope == FigureScope::rank) {
    for (std::int64_t rank = 0; rank < placement_.ranks(); ++rank) { all.push_back({{}, rank}); }
  }
  return all;
}

FigureOwner CommandJob::owner_of(const Process& process, const RankLine& line) const {
  if (job_.launch == JobLaunch::mpirun) { return {{}, line.rank.value_or(0)}; }
  return {name_of(process.node, process.planned)};
}

void CommandJob::take_line(const Process& process, OutputStream /*stream*/, const RankLine& line,
                           std::int64_t t_ns) {
  last_output_ns_ = monotonic_ns();
  take_text(line, most_command_output);
  const auto owner = owner_of(process, line);
  take_throughput(owner, line, t_ns);
  const auto readings = others_.take(line.text, owner, t_ns);
  count_figures(readings.size());
  for (const auto& reading : readings) {
    if (on_reading) { on_reading(reading); }
  }
}

void CommandJob::count_figures(std::size_t more) {
  figures_ += more;
  if (figures_ <= most_job_figures) { return; }
  throw Error(
      "read the command's output", ErrorCode::protocol,
      fmt::format("more than {} figures (let it print fewer, or narrow the patterns)", most_job_figures));
}

void CommandJob::take_throughput(const FigureOwner& owner, const RankLine& line, std::int64_t t_ns) {
  const bool is_of_all =
      *job_.throughput.scope == FigureScope::job || *job_.throughput.scope == FigureScope::each_rank;
  if (is_of_all && speaker_ && owner != *speaker_) { return; }
  auto& source = sources_.try_emplace(owner, Source{FigureReader(job_.throughput)}).first->second;
  if (is_table(job_.throughput)) {
    // Processes but the first print messages, too: who has the table is told at the end.
    source.table.add(line.text, t_ns);
    return;
  }
  const auto figure = source.reader.read(line.text, t_ns);
  if (!figure) { return; }
  if (is_of_all) { speaker_ = owner; }
  if (figure->replaces_others) { source.figures.clear(); }
  count_figures(1);
  if (last_figure_ns_ != 0) {
    longest_gap_ = std::max(longest_gap_, nanoseconds(last_output_ns_ - last_figure_ns_));
  }
  last_figure_ns_ = last_output_ns_;
  source.figures.push_back(*figure);
  if (on_figure) { on_figure(*figure); }
  if (!on_reading) { return; }
  auto reading = owner.figure("throughput", job_.throughput.unit);
  reading.value = figure->value;
  reading.t_ns = figure->t_ns;
  on_reading(reading);
}

std::vector<results::Figure> CommandJob::figures() const {
  auto all = others_.values();
  all.insert(all.end(), result_.others.begin(), result_.others.end());
  return all;
}

JobResult CommandJob::judge_table() const {
  std::vector<std::string> who;
  const JobTable* table = nullptr;
  for (const auto& [owner, source] : sources_) {
    if (!source.table.has_rows()) { continue; }
    who.push_back(owner.name());
    table = &source.table;
  }
  if (who.size() > 1) {
    JobResult result;
    result.doubts.push_back(fmt::format(
        "{} print a table each: the processes ran separate tests (nccl-tests built without MPI=1?)",
        join(who, ", ")));
    return result;
  }
  return table == nullptr ? JobTable().judge(job_.throughput, "")
                          : table->judge(job_.throughput, join(job_.command, " "));
}

std::vector<FigureSource> CommandJob::sources() const {
  auto expected = owners(*job_.throughput.scope);
  if (expected.empty() && speaker_) { expected.push_back(*speaker_); }
  if (expected.empty()) {
    for (const auto& [owner, source] : sources_) {
      if (source.reader.misread().count > 0) { return {{owner.name(), {}, source.reader.misread()}}; }
    }
    return {{"the command", {}}};
  }
  std::vector<FigureSource> all;
  for (const auto& owner : expected) {
    const auto found = sources_.find(owner);
    if (found == sources_.end()) {
      all.push_back({owner.name(), {}});
    } else {
      all.push_back({owner.name(), found->second.figures, found->second.reader.misread()});
    }
  }
  return all;
}

// --- waiting

std::string CommandJob::ended_badly() const {
  for (const auto& process : processes_) {
    const auto status = process->exit_status.value_or(0);
    if (status == 0) { continue; }
    return fmt::format("the command ended with exit status {} in {}{}", status,
                       name_of(process->node, process->planned),
                       status == killed_status      ? killed_hint
                       : status == not_found_status ? not_found_hint
                                                    : "");
  }
  return {};
}

bool CommandJob::have_all_ended() const {
  return !processes_.empty() && std::ranges::all_of(processes_, [](const auto& process) {
    return process->exit_status.has_value();
  });
}

nanoseconds CommandJob::most_silence() const {
  return std::max(least_silence, most_gaps * longest_gap_);
}

asio::awaitable<void> CommandJob::wait_for_counted_steps(milliseconds deadline) {
  constexpr const char* what = "wait for the command to end";
  // Where one ends badly the others may wait for it for long.
  const std::function<bool()> ended = [this] { return have_all_ended() || !ended_badly().empty(); };
  const FairDeadline whole(deadline, {});
  FairDeadline standing(most_silence(), waiting_time());
  auto heard_ns = last_output_ns_;
  while (true) {
    const FairDeadline look(std::min<nanoseconds>(look_period, std::max(whole.left(), nanoseconds(1))), {});
    const bool is_done = co_await reaches(what, ended, look);
    if (is_done) { co_return; }
    if (whole.left().count() <= 0) {
      throw Error(
          what, ErrorCode::timeout,
          fmt::format("the command of {} has not ended after {} (raise trial_timeout, or let it do less); "
                      "its last output:\n{}",
                      placement_.name, format_duration(nanoseconds(deadline).count()), last_words()));
    }
    if (heard_ns != last_output_ns_) {
      heard_ns = last_output_ns_;
      standing = FairDeadline(most_silence(), waiting_time());
    } else if (figures_ > 0 && standing.left().count() <= 0) {
      throw Error(
          what, ErrorCode::timeout,
          fmt::format("the command of {} stands still: it has printed nothing for {}; its last output:\n{}",
                      placement_.name, format_duration(standing.total().count()), last_words()));
    }
  }
}

asio::awaitable<void> CommandJob::wait_for_results(milliseconds deadline) {
  co_await wait_for_counted_steps(deadline);
  result_ =
      is_table(job_.throughput) ? judge_table() : judge_job(sources(), job_.throughput, placement_.ranks());
  for (auto& doubt :
       others_.doubts(owners(job_.launch == JobLaunch::mpirun ? FigureScope::rank : FigureScope::node))) {
    result_.doubts.push_back(std::move(doubt));
  }
  if (auto words = ended_badly(); !words.empty()) {
    result_.doubts.insert(result_.doubts.begin(), std::move(words));
  }
  if (!result_.doubts.empty()) { result_.doubts.back() += behind("; its last output:\n"); }
}

std::pair<std::int64_t, std::int64_t> CommandJob::counted_interval() const {
  if (result_.throughput == 0) { return {released_ns_, last_output_ns_}; }
  return {result_.begin_ns, result_.end_ns};
}

namespace {

using results::Figure;
using results::Probe;

/// A line's way from the job to its agent.
constexpr double most_table_delay_seconds = 0.25;

/// All that tells a value of a row from others.
using RowKey = std::pair<std::string, results::ProbeSettings>;

RowKey key_of(const Probe& probe, const char* bandwidth) {
  RowKey key{probe.name, results::settings_of(probe)};
  auto& settings = key.second;
  if (probe.size_bytes) { settings["size_bytes"] = std::to_string(*probe.size_bytes); }
  if (!probe.data_type.empty()) { settings["data_type"] = probe.data_type; }
  if (const auto side = results::side_of(probe); !side.empty()) { settings["side"] = side; }
  settings["bandwidth"] = bandwidth;
  return key;
}

/// Rows of equal settings, such as those of several cycles, are one figure: their mean.
std::vector<Figure> figures_of(const std::vector<Probe>& probes) {
  struct KnownRow {
    std::size_t index = 0;
    double count = 0;
  };
  std::vector<Figure> figures;
  std::map<RowKey, KnownRow> known;
  const auto add = [&](const RowKey& key, double value) {
    auto& row = known.try_emplace(key, KnownRow{figures.size(), 0}).first->second;
    if (row.count == 0) {
      figures.emplace_back();
      figures.back().name = key.first;
      figures.back().unit = "B/s";
      figures.back().settings = key.second;
    }
    row.count += 1;
    auto& mean = figures[row.index].value;
    mean += (value - mean) / row.count;
  };
  for (const auto& probe : probes) {
    add(key_of(probe, "algorithm"), probe.value);
    if (probe.bus_bytes_per_second) { add(key_of(probe, "bus"), *probe.bus_bytes_per_second); }
  }
  return figures;
}

/// The rows that decide: those of the size, out of place where there are any.
std::vector<const Probe*> deciding_rows(const std::vector<Probe>& probes, std::int64_t size) {
  std::vector<const Probe*> rows;
  for (const auto* side : {"out of place", "in place", ""}) {
    for (const auto& probe : probes) {
      if (probe.size_bytes == size && probe.bus_bytes_per_second && results::side_of(probe) == side) {
        rows.push_back(&probe);
      }
    }
    if (!rows.empty()) { return rows; }
  }
  return rows;
}

std::string sizes_text(const std::set<std::int64_t>& sizes) {
  constexpr std::size_t most_shown = 40;
  std::vector<std::string> words;
  for (const auto size : sizes) {
    if (words.size() == most_shown) { return join(words, ", ") + ", …"; }
    words.push_back(format_size(static_cast<std::uint64_t>(size)));
  }
  return join(words, ", ");
}

void decide(const std::vector<Probe>& probes, const JobThroughput& how, JobResult& result) {
  std::set<std::int64_t> sizes;
  std::set<std::string> names;
  for (const auto& probe : probes) {
    names.insert(probe.name);
    if (probe.size_bytes && probe.bus_bytes_per_second) { sizes.insert(*probe.size_bytes); }
  }
  if (names.size() > 1) {
    result.doubts.push_back(fmt::format("its output has {} ({}), and one of them must decide (run one)",
                                        counted(names.size(), "collective"),
                                        join({names.begin(), names.end()}, ", ")));
    return;
  }
  if (sizes.empty()) {
    result.doubts.emplace_back("its table has no bus bandwidth");
    return;
  }
  const auto size = how.size ? static_cast<std::int64_t>(*how.size) : *sizes.rbegin();
  const auto rows = deciding_rows(probes, size);
  if (rows.empty()) {
    result.doubts.push_back(fmt::format("its table has no row of {} (throughput.size; there are {})",
                                        format_size(static_cast<std::uint64_t>(size)), sizes_text(sizes)));
    return;
  }
  double sum = 0;
  for (const auto* row : rows) { sum += *row->bus_bytes_per_second; }
  result.throughput = sum / static_cast<double>(rows.size());
  if (result.throughput == 0) {
    result.doubts.push_back(
        fmt::format("the bus bandwidth at {} is 0: one rank alone has none, and few bytes "
                    "have less than the table prints",
                    format_size(static_cast<std::uint64_t>(size))));
  }
}

}  // namespace

bool is_table(const JobThroughput& throughput) {
  return throughput.format == LineFormat::nccl_tests;
}

void JobTable::add(std::string_view line, std::int64_t t_ns) {
  if (text_.empty()) { first_ns_ = t_ns; }
  text_.append(line).push_back('\n');
  const auto words = virtrain::words_of(line);
  if (results::is_nccl_row(line)) {
    ++rows_;
    last_row_ns_ = t_ns;
  }
  for (std::size_t i = 1; i + 1 < words.size() && words[0] == "#"; ++i) {
    const auto count = words[i] == "iters:" && words[i - 1] != "agg" && words[i - 1] != "warmup"
                           ? parse_integer(words[i + 1])
                           : std::nullopt;
    if (count && *count > 0) { iterations_ = static_cast<double>(*count); }
  }
}

JobResult JobTable::judge(const JobThroughput& how, const std::string& program) const {
  JobResult result;
  result.begin_ns = first_ns_;
  result.end_ns = last_row_ns_;
  if (!has_rows()) {
    result.doubts.emplace_back("the command printed no row of figures");
    return result;
  }
  std::vector<Probe> probes;
  try {
    probes = results::read_nccl_output(text_, program);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    result.doubts.emplace_back(error.what());
    return result;
  }
  result.others = figures_of(probes);
  result.figures = probes.size();
  double claimed = 0;
  std::int64_t wrong = 0;
  for (const auto& probe : probes) {
    claimed += probe.seconds.value_or(0) * iterations_;
    wrong += probe.wrong.value_or(0);
  }
  if (wrong > 0) {
    result.doubts.push_back(fmt::format("{} of its data came out wrong", counted(wrong, "element")));
  }
  const double elapsed = static_cast<double>(last_row_ns_ - first_ns_) * 1e-9;
  if (claimed > elapsed + most_table_delay_seconds) {
    result.doubts.push_back(
        fmt::format("its table says {} of operations and came within {}, so no clock checks it (let it print "
                    "each line at "
                    "once: stdbuf -oL)",
                    format_seconds(claimed), format_seconds(elapsed)));
  }
  decide(probes, how, result);
  return result;
}

}  // namespace virtrain::harness
