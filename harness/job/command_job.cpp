#include "harness/job/command_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/job/gpu_environment.h"

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
  if (expected.empty()) { return {{"the command", {}}}; }
  std::vector<FigureSource> all;
  for (const auto& owner : expected) {
    const auto found = sources_.find(owner);
    all.push_back({owner.name(), found == sources_.end() ? std::vector<JobFigure>() : found->second.figures});
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

}  // namespace virtrain::harness
