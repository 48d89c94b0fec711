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
constexpr std::size_t last_lines = 12;
constexpr std::size_t most_host_name_bytes = 64;

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

/// Whether Open MPI or NCCL prints this about itself, of no use beside an error.
bool is_chatter(const std::string& text) {
  return text.find("mca: ") != std::string::npos || text.find("NCCL INFO") != std::string::npos ||
         trim(text).empty();
}

}  // namespace

TenantJob::TenantJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
                     RankNetwork network, bool crowded, const MpiDialect& mpi)
    : kind_(placement.runs_job() ? "command" : "trainer"),
      placement_(placement),
      nodes_(std::move(nodes)),
      network_(network),
      crowded_(crowded),
      io_(io),
      mpi_(mpi),
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

std::map<std::string, std::string> TenantJob::environment_of(std::size_t node,
                                                             std::int64_t /*planned*/) const {
  auto environment =
      rank_environment(placement_, nodes_[node].environment, network_, crowded_, nodes_[node].interface);
  if (network_ != RankNetwork::tcp || are_alike(mpi_nodes_)) { return environment; }
  for (const auto& [name, value] : daemon_environment(mpi_, mpi_nodes_[node])) { environment[name] = value; }
  return environment;
}

asio::awaitable<void> TenantJob::start(std::size_t node, std::vector<std::string> argv,
                                       std::int64_t planned) {
  processes_.push_back(std::make_unique<Process>(
      Process{node, planned, RankOutputSplitter(mpi_.tag_end), RankOutputSplitter(mpi_.tag_end)}));
  auto* const process = processes_.back().get();
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = environment_of(node, planned);
  ProcessEvents events;
  events.on_output = [self = shared_from_this(), process](OutputStream stream, std::string_view bytes,
                                                          std::int64_t t_ns) {
    self->take_output(*process, stream, bytes, t_ns);
  };
  events.on_exit = [self = shared_from_this(), process](int status) {
    self->take_last_words(*process);
    process->exit_status = status;
    self->waiter_.wake();
  };
  process->id = co_await nodes_[node].agent->start(spec, std::move(events));
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
  NodeInput input{"", environment_of(0, 0)};
  const auto output = co_await run_in_node(io_, nodes_[0].agent, std::move(words), timeout, std::move(input));
  std::string lines;
  RankOutputSplitter splitter(mpi_.tag_end);
  const auto take = [&](const RankLine& line) { lines += line.text + "\n"; };
  splitter.feed(output, take);
  splitter.finish(take);
  co_return lines;
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
  spec.environment = environment_of(target, 0);
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

void TenantJob::take_output(Process& process, OutputStream stream, std::string_view bytes,
                            std::int64_t t_ns) {
  if (failure_) { return; }
  auto& splitter = stream == OutputStream::standard_output ? process.out : process.err;
  try {
    splitter.feed(
        bytes, [&](const RankLine& line) { take_line(process, stream, line, line.t_ns); }, t_ns);
  } catch (const std::exception& error) { fail(error.what()); }
}

void TenantJob::take_last_words(Process& process) {
  if (failure_) { return; }
  try {
    for (const auto stream : {OutputStream::standard_output, OutputStream::standard_error}) {
      auto& splitter = stream == OutputStream::standard_output ? process.out : process.err;
      splitter.finish([&](const RankLine& line) { take_unfinished(process, stream, line); });
    }
  } catch (const std::exception& error) { fail(error.what()); }
}

void TenantJob::take_unfinished(const Process& /*process*/, OutputStream /*stream*/, const RankLine& line) {
  take_text(line, max_other_output_bytes);
}

void TenantJob::take_text(const RankLine& line, std::size_t most_bytes) {
  if (!line.text.empty()) { log::debug(line.text, {{"tenant", placement_.name}}); }
  note_transport(line);
  nccl_transports_.take(line.text, placement_.ranks());
  other_bytes_ += line.text.size() + line_bytes;
  if (other_bytes_ > most_bytes) {
    throw Error(fmt::format("read the {}'s output", kind_), ErrorCode::protocol,
                fmt::format("the {} wrote more than {} of output that is not the protocol", kind_,
                            format_size(most_bytes)));
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

// --- waiting

std::string TenantJob::behind(const char* words) const {
  return last_lines_.empty() ? "" : words + last_words();
}

asio::awaitable<bool> TenantJob::reaches(const char* what, std::function<bool()> reached,
                                         FairDeadline deadline) {
  const std::function<bool()> done = [&] {
    if (failure_) { throw Error(what, ErrorCode::trial_failed, *failure_ + behind("\n")); }
    if (reached()) { return true; }
    if (const auto words = ended_early(); !words.empty()) {
      throw Error(what, ErrorCode::trial_failed, words + behind("; its last output:\n"));
    }
    return false;
  };
  co_return co_await waiter_.until(done, deadline);
}

asio::awaitable<void> TenantJob::wait_until(const char* what, std::function<bool()> reached,
                                            FairDeadline deadline) {
  const bool in_time = co_await reaches(what, std::move(reached), deadline);
  if (!in_time) {
    throw Error(
        what, ErrorCode::timeout,
        fmt::format("not within {} s{}", std::chrono::round<std::chrono::seconds>(deadline.total()).count(),
                    behind("; its last output:\n")));
  }
}

asio::awaitable<std::int64_t> TenantJob::sweep() {
  std::int64_t killed = 0;
  for (const auto& node : nodes_) {
    if (!node.agent->is_lost()) { killed += co_await node.agent->sweep(); }
  }
  co_return killed;
}

namespace asio = boost::asio;
namespace {

constexpr std::chrono::milliseconds time_to_read{200};

}  // namespace

Waiter::Waiter(asio::io_context& io) : io_(io), changed_(io, asio::steady_timer::time_point::max()) {}

asio::awaitable<bool> Waiter::until(std::function<bool()> done, FairDeadline deadline) {
  boost::system::error_code woken;
  while (!done()) {
    const auto left = deadline.left();
    if (left.count() <= 0) {
      // Where this process itself stood still, it has yet to read messages that came in time.
      asio::steady_timer reading(io_, time_to_read);
      co_await reading.async_wait(asio::redirect_error(asio::use_awaitable, woken));
      co_return done();
    }
    changed_.expires_after(left);
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  co_return true;
}

}  // namespace virtrain::harness
