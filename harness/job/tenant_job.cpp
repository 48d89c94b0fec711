#include "harness/job/tenant_job.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/agent/client/run_in_node.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds path_deadline{5'000};
/// From the last result to the trainer's exit.
constexpr milliseconds exit_grace{10'000};
/// With GPUs: whoever closes one last waits for the driver to shut it down, 1 to 4 s for each, one after the
/// other, after tens of GB were freed and NCCL and MPI have ended.
constexpr milliseconds gpu_exit_grace{60'000};
constexpr std::size_t last_lines = 12;
constexpr std::size_t most_host_name_bytes = 64;
constexpr const char* killed_hint = " (killed, probably out of memory: raise guest.memory)";

/// "[…] mca: bml: Using tcp btl for send to [[12,1],1] on node t1n2" as (transport, node).
std::optional<std::pair<std::string, std::string>> parse_bml_line(std::string_view text) {
  constexpr std::string_view begin_mark = "bml: Using ", middle_mark = " btl for send to ",
                             node_mark = " on node ";
  const auto begin = text.find(begin_mark);
  const auto middle = text.find(middle_mark);
  const auto node = text.rfind(node_mark);
  if (begin == std::string_view::npos || middle == std::string_view::npos || node == std::string_view::npos) {
    return std::nullopt;
  }
  const auto name_at = begin + begin_mark.size();
  return std::pair(std::string(text.substr(name_at, middle - name_at)),
                   std::string(trim(text.substr(node + node_mark.size()))));
}

Error refused(const std::string& why) {
  return {"read the trainer's output", ErrorCode::protocol, why};
}

/// Whether Open MPI or NCCL prints this about itself, of no use beside an error.
bool is_chatter(const std::string& text) {
  return text.find("mca: ") != std::string::npos || text.find("NCCL INFO") != std::string::npos ||
         trim(text).empty();
}

}  // namespace

TenantJob::TenantJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
                     RankNetwork network, bool crowded, bool beside_others, const MpiDialect& mpi)
    : io_(io),
      crowded_(crowded),
      beside_others_(beside_others),
      placement_(placement),
      nodes_(std::move(nodes)),
      network_(network),
      mpi_(mpi),
      ranks_(static_cast<std::size_t>(placement.ranks())),
      out_(mpi.tag_end),
      err_(mpi.tag_end),
      waiter_(io) {
  for (const auto& node : nodes_) {
    const std::string name = network_ != RankNetwork::tcp ? "localhost"
                             : node.has_own_name          ? node.hostname
                                                          : node.address;
    mpi_nodes_.push_back({name, ranks_of(node), node.interface, node.temporary_folder});
  }
}

void TenantJob::spawn(asio::awaitable<void> task) {
  asio::co_spawn(io_, std::move(task), [self = shared_from_this()](std::exception_ptr error) {
    if (!error) { return; }
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) { self->fail(e.what()); }
  });
}

void TenantJob::fail(const std::string& reason) {
  if (!failure_) { failure_ = reason; }
  waiter_.wake();
}

std::size_t TenantJob::node_of(std::int64_t rank) const {
  std::size_t n = 0;
  for (auto end = ranks_of(nodes_[0]); rank >= end && n + 1 < nodes_.size(); end += ranks_of(nodes_[n])) {
    ++n;
  }
  return n;
}

std::map<std::string, std::string> TenantJob::environment_on(const JobNode& node) const {
  auto environment = rank_environment(placement_, node.environment, network_, crowded_, node.interface);
  if (network_ != RankNetwork::tcp || are_alike(mpi_nodes_)) { return environment; }
  const auto index = static_cast<std::size_t>(&node - nodes_.data());
  for (const auto& [name, value] : daemon_environment(mpi_, mpi_nodes_[index])) { environment[name] = value; }
  return environment;
}

std::string TenantJob::last_words() const {
  return join(std::vector<std::string>(last_lines_.begin(), last_lines_.end()), "\n");
}

// --- starting

WaitingTime TenantJob::waiting_time() const {
  return [self = weak_from_this()] {
    std::chrono::nanoseconds longest{};
    if (const auto job = self.lock()) {
      for (const auto& node : job->nodes_) {
        if (node.agent->waiting_time) { longest = std::max(longest, node.agent->waiting_time()); }
      }
    }
    return longest;
  };
}

asio::awaitable<void> TenantJob::check_paths() {
  for (std::size_t n = 1; n < nodes_.size(); ++n) {
    const std::pair<std::size_t, std::size_t> ways[] = {{0, n}, {n, 0}};
    for (const auto& [from, to] : ways) {
      const auto& address = nodes_[to].address;
      const FairDeadline fair(path_deadline, waiting_time());
      auto why = co_await nodes_[from].agent->unreachable(address, path_deadline);
      while (why && fair.left().count() > 0) {
        why = co_await nodes_[from].agent->unreachable(address, path_deadline);
      }
      if (why) {
        throw Error("check the tenant's network", ErrorCode::trial_failed,
                    fmt::format("{} does not reach {} at {}: {} (is the link down?)", nodes_[from].hostname,
                                nodes_[to].hostname, address, *why));
      }
    }
  }
}

asio::awaitable<void> TenantJob::launch(const std::string& trainer_program, std::chrono::seconds timeout) {
  if (network_ == RankNetwork::tcp) { co_await check_paths(); }
  ProcessSpec spec;
  spec.argv =
      trainer_command(trainer_program, placement_.workload, placement_.threads_per_rank, beside_others_);
  spec.environment = environment_on(nodes_[0]);
  spec.argv = started_by_mpirun(std::move(spec.argv), timeout);
  ProcessEvents events;
  events.on_output = [self = shared_from_this()](OutputStream stream, std::string_view bytes, std::int64_t) {
    self->take_output(stream, bytes);
  };
  events.on_exit = [self = shared_from_this()](int status) {
    self->take_last_words();
    self->exit_status_ = status;
    self->waiter_.wake();
  };
  process_ = co_await nodes_[0].agent->start(spec, std::move(events));
}

std::vector<std::string> TenantJob::started_by_mpirun(std::vector<std::string> program,
                                                      std::chrono::seconds timeout) {
  if (network_ == RankNetwork::single_process) { return program; }
  for (std::size_t n = 0; n < nodes_.size(); ++n) { serve_remote_shell(n); }
  return mpirun_command(mpi_, mpi_nodes_, network_, crowded_, timeout.count(), program);
}

asio::awaitable<std::string> TenantJob::measure(std::vector<std::string> program,
                                                std::chrono::seconds timeout) {
  if (network_ == RankNetwork::tcp) { co_await check_paths(); }
  auto words = started_by_mpirun(std::move(program), timeout);
  NodeInput input{"", environment_on(nodes_[0])};
  const auto output = co_await run_in_node(io_, nodes_[0].agent, std::move(words), timeout, std::move(input));
  std::string lines;
  RankOutputSplitter splitter(mpi_.tag_end);
  const auto take = [&](const RankLine& line) { lines += line.text + "\n"; };
  splitter.feed(output, take);
  splitter.finish(take);
  co_return lines;
}

asio::awaitable<void> TenantJob::go() {
  released_ns_ = monotonic_ns();
  co_await nodes_[0].agent->write_stdin(process_, "go\n", false);
}

// --- mpirun's remote shell: its daemons are started by the agents

void TenantJob::serve_remote_shell(std::size_t node) {
  auto& agent = *nodes_[node].agent;
  const std::weak_ptr<TenantJob> weak = weak_from_this();
  agent.on_rsh = [weak, node](std::int64_t shell, const std::string& host, std::string command) {
    const auto self = weak.lock();
    if (!self || self->failure_) { return; }
    const auto target = self->index_of(host);
    if (target) {
      self->spawn(self->run_remote_shell(node, shell, *target, std::move(command)));
    } else {  // at once: without an answer mpirun would wait for ever
      self->nodes_[node].agent->rsh_exit(shell, 255,
                                         fmt::format("virtrain-rsh: no node of this tenant is named {}\n",
                                                     excerpt(host, most_host_name_bytes)));
    }
  };
  agent.on_rsh_closed = [weak, node](std::int64_t shell) {
    const auto self = weak.lock();
    const auto found = self ? self->shells_.find({node, shell}) : decltype(shells_)::iterator{};
    if (!self || found == self->shells_.end()) { return; }
    self->spawn(self->nodes_[found->second.first].agent->signal(found->second.second, SIGKILL));
  };
}

std::optional<std::size_t> TenantJob::index_of(std::string_view name) const {
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (mpi_nodes_[n].name == name) { return n; }
  }
  return std::nullopt;
}

std::optional<std::size_t> TenantJob::index_of_any(std::string_view name) const {
  if (const auto known = index_of(name)) { return known; }
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].hostname == name || (!nodes_[n].has_own_name && nodes_[n].reported_name == name)) {
      return n;
    }
  }
  return std::nullopt;
}

asio::awaitable<void> TenantJob::run_remote_shell(std::size_t from, std::int64_t shell, std::size_t target,
                                                  std::string command) {
  const auto asking = nodes_[from].agent;
  ProcessEvents events;
  events.on_output = [self = shared_from_this(), asking, shell](OutputStream stream, std::string_view bytes,
                                                                std::int64_t) {
    self->relay_output(*asking, shell, stream, bytes);
  };
  events.on_exit = [self = shared_from_this(), asking, from, shell](int status) {
    self->shells_.erase({from, shell});
    asking->rsh_exit(shell, status, "");
  };
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", command};
  spec.environment = environment_on(nodes_[target]);
  const std::int64_t process = co_await nodes_[target].agent->start(spec, std::move(events));
  shells_[{from, shell}] = {target, process};
}

/// mpirun's daemons say next to nothing there: their ranks' output goes by mpirun itself.
void TenantJob::relay_output(AgentClient& asking, std::int64_t shell, OutputStream stream,
                             std::string_view bytes) {
  if (failure_) { return; }
  relayed_bytes_ += bytes.size() + line_bytes;
  if (relayed_bytes_ > max_other_output_bytes) {
    return fail(fmt::format("the remote shells of {} wrote more than {}", asking.node(),
                            format_size(max_other_output_bytes)));
  }
  asking.rsh_output(shell, stream, bytes);
}

// --- output

void TenantJob::take_output(OutputStream stream, std::string_view bytes) {
  if (failure_) { return; }
  auto& splitter = stream == OutputStream::standard_output ? out_ : err_;
  try {
    splitter.feed(bytes, [&](const RankLine& line) { take_line(stream, line); });
  } catch (const std::exception& error) { fail(error.what()); }
}

void TenantJob::take_last_words() {
  if (failure_) { return; }
  try {
    out_.finish([&](const RankLine& line) {
      if (is_half_a_record(line.text)) { return take_text(line); }
      take_line(OutputStream::standard_output, line);
    });
    err_.finish([&](const RankLine& line) { take_line(OutputStream::standard_error, line); });
  } catch (const std::exception& error) { fail(error.what()); }
}

void TenantJob::take_line(OutputStream stream, const RankLine& line) {
  if (stream == OutputStream::standard_output) {
    if (const auto record = decode_record(line)) { return take_record(*record, line.text.size()); }
  }
  take_text(line);
}

void TenantJob::take_text(const RankLine& line) {
  if (!line.text.empty()) { log::debug(line.text, {{"tenant", placement_.name}}); }
  note_transport(line);
  nccl_transports_.take(line.text, placement_.ranks());
  other_bytes_ += line.text.size() + line_bytes;
  if (other_bytes_ > max_other_output_bytes) {
    throw refused(fmt::format("the trainer wrote more than {} of output that is not the protocol",
                              format_size(max_other_output_bytes)));
  }
  if (is_chatter(line.text)) { return; }
  last_lines_.push_back(printable(line.text.substr(0, 400)));
  if (last_lines_.size() > last_lines) { last_lines_.pop_front(); }
}

void TenantJob::note_transport(const RankLine& line) {
  const auto used = parse_bml_line(line.text);
  if (!used || !line.rank || *line.rank >= placement_.ranks()) { return; }
  const std::string& from = nodes_[node_of(*line.rank)].hostname;
  // mpirun shortens host names no further than ours are.
  const std::string name = used->first == mpi_.shared_memory ? "shm" : used->first;
  // Slices without namespaces carry the host's own name, so a job in one of them goes by its node's.
  const bool is_plain = !name.empty() && name.size() <= most_host_name_bytes && printable(name) == name;
  const auto to = network_ == RankNetwork::shared_memory ? std::optional(node_of(*line.rank))
                                                         : index_of_any(used->second);
  if (name != "self" && is_plain && to) { transports_[{from, nodes_[*to].hostname}] = name; }
}

/// A rank may not take back a record that the coordinator has acted on.
template <typename Record>
void TenantJob::take_once(std::optional<Record>& kept, std::int64_t rank, const Record& said) const {
  if (kept) { throw refused(fmt::format("rank {} sends its {} twice", rank, Record::record)); }
  kept = said;
}

void TenantJob::take(RankState& state, std::int64_t rank, const protocol::Hello& said) {
  take_once(state.hello, rank, said);
}

void TenantJob::take(RankState& state, std::int64_t rank, const protocol::Ready& said) {
  take_once(state.ready, rank, said);
}

void TenantJob::take(RankState& state, std::int64_t rank, const protocol::Result& said) {
  if (said.scope == "rank") { take_once(state.result, rank, said); }
}

void TenantJob::take(RankState& /*state*/, std::int64_t rank, const protocol::Failure& said) {
  fail(fmt::format("rank {}: {}", rank, printable(said.message)));
}

void TenantJob::check_planned(const RankState& state, const RankState::Window& sample) const {
  const auto& workload = placement_.workload;
  const std::int64_t last = state.samples.empty() ? 0 : state.samples.back().step;
  if (sample.step <= last || sample.step > workload.steps) {
    throw refused(
        fmt::format("a sample of step {} after one of step {}, of {}", sample.step, last, workload.steps));
  }
  if (sample.images > workload.images_per_rank()) {
    throw refused(fmt::format("a sample of {} images where all steps have {}", sample.images,
                              workload.images_per_rank()));
  }
}

RankState::Window TenantJob::begin_window(RankState& state, std::int64_t t_ns, double seconds) const {
  RankState::Window window;
  window.t_ns = nodes_[state.node].agent->time_of_message(t_ns);
  window.seconds = seconds;
  window.received_ns = monotonic_ns();
  if (!state.first_start_ns) {
    state.first_start_ns = window.t_ns - static_cast<std::int64_t>(window.seconds * 1e9);
  }
  return window;
}

void TenantJob::take(RankState& state, std::int64_t rank, const protocol::Warmup& step) {
  const auto window = begin_window(state, step.t_ns, step.seconds.value_or(0));
  if (!state.samples.empty()) {
    throw refused(fmt::format("rank {} sends a warm-up step after a counted one", rank));
  }
  state.warmed_up_ns = window.received_ns;
}

void TenantJob::take(RankState& state, std::int64_t /*rank*/, const protocol::Later& step) {
  auto window = begin_window(state, step.t_ns, step.seconds);
  window.images = step.images;
  const auto planned = placement_.workload.later_steps.value_or(0);
  if (std::ssize(state.later) >= planned) {
    throw refused(fmt::format("more than {} steps after the counted ones", planned));
  }
  state.later.push_back(window);
}

void TenantJob::take(RankState& state, std::int64_t /*rank*/, const protocol::Sample& sample) {
  auto window = begin_window(state, sample.t_ns, sample.seconds);
  window.images = sample.images;
  window.step = sample.step;
  window.loss = sample.loss;
  check_planned(state, window);
  state.samples.push_back(window);
}

void TenantJob::take_record(const RankRecord& record, std::size_t bytes) {
  if (record.rank < 0 || record.rank >= placement_.ranks()) {
    throw refused(fmt::format("rank {} of {}", record.rank, placement_.ranks()));
  }
  auto& state = ranks_[static_cast<std::size_t>(record.rank)];
  state.node = node_of(record.rank);
  using namespace protocol;
  const bool is_planned =
      std::holds_alternative<Sample>(record.said) || std::holds_alternative<Later>(record.said) ||
      (std::holds_alternative<Warmup>(record.said) && ++state.warmups <= placement_.workload.warmup_steps);
  if (!is_planned) { state.unplanned_bytes += bytes + line_bytes; }
  if (state.unplanned_bytes > max_other_output_bytes) {
    throw refused(fmt::format("rank {} wrote more than {} of records other than samples", record.rank,
                              format_size(max_other_output_bytes)));
  }
  std::visit([&](const auto& said) { take(state, record.rank, said); }, record.said);
  if (on_record) { on_record(record.rank, record); }
  waiter_.wake();
}

// --- waiting

template <typename Said>
bool TenantJob::every_rank(std::optional<Said> RankState::*record) const {
  return std::ranges::all_of(ranks_, [&](const RankState& rank) { return (rank.*record).has_value(); });
}

asio::awaitable<void> TenantJob::wait_until(const char* what, std::function<bool()> reached,
                                            FairDeadline deadline) {
  const auto behind = [this](const char* words) { return last_lines_.empty() ? "" : words + last_words(); };
  const std::function<bool()> done = [&] {
    if (failure_) { throw Error(what, ErrorCode::trial_failed, *failure_ + behind("\n")); }
    if (reached()) { return true; }
    if (exit_status_) {
      throw Error(what, ErrorCode::trial_failed,
                  fmt::format("the trainer of {} ended with exit status {}{} before that{}", placement_.name,
                              *exit_status_, *exit_status_ == killed_status ? killed_hint : "",
                              behind("; its last output:\n")));
    }
    return false;
  };
  const bool in_time = co_await waiter_.until(done, deadline);
  if (!in_time) {
    throw Error(
        what, ErrorCode::timeout,
        fmt::format("not within {} s{}", std::chrono::round<std::chrono::seconds>(deadline.total()).count(),
                    behind("; its last output:\n")));
  }
}

asio::awaitable<void> TenantJob::wait_for_hello(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::hello); };
  co_await wait_until("wait for every rank's hello", all, FairDeadline(deadline, waiting_time()));
}

asio::awaitable<void> TenantJob::wait_for_ready(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::ready); };
  co_await wait_until("wait at the start barrier", all, FairDeadline(deadline, {}));
}

asio::awaitable<void> TenantJob::wait_for_counted_steps(milliseconds deadline) {
  const std::function<bool()> all = [this] {
    return std::ranges::all_of(ranks_, [this](const RankState& rank) {
      return !rank.samples.empty() && rank.samples.back().step >= placement_.workload.steps;
    });
  };
  co_await wait_until("wait for every rank's counted steps", all, FairDeadline(deadline, {}));
}

asio::awaitable<void> TenantJob::wait_for_results(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::result); };
  const std::function<bool()> ended = [this] { return exit_status_.has_value(); };
  co_await wait_until("wait for every rank's result", all, FairDeadline(deadline, {}));
  const auto grace = placement_.workload.backend == Backend::cuda ? gpu_exit_grace : exit_grace;
  co_await wait_until("wait for the trainer to end", ended, FairDeadline(grace, waiting_time()));
  if (*exit_status_ != 0) {
    throw Error("wait for the trainer to end", ErrorCode::trial_failed,
                fmt::format("exit status {}; its last output:\n{}", *exit_status_, last_words()));
  }
}

asio::awaitable<std::int64_t> TenantJob::sweep() {
  std::int64_t killed = 0;
  for (const auto& node : nodes_) {
    if (!node.agent->is_lost()) { killed += co_await node.agent->sweep(); }
  }
  co_return killed;
}

}  // namespace virtrain::harness
