#include "harness/experiment/experiment.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <future>
#include <random>
#include <set>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/version.h"
#include "harness/experiment/experiment_runner.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/stop_signals.h"
#include "harness/hosts/host_client.h"
#include "harness/job/programs.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/rules/uniformity.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;

constexpr std::chrono::seconds busy_retry_period{2};

std::string make_experiment_id() {
  std::random_device device;
  return fmt::format("{:%Y%m%dt%H%M%S}-{:06x}",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns() / 1'000'000'000)), device() & 0xffffff);
}

results::Experiment experiment_record(const Scenario& scenario, const Plan& plan,
                                      const ExperimentOptions& options, const std::string& id,
                                      const ByHost<HostFacts>& facts) {
  results::Experiment record;
  record.id = id;
  record.scenario = scenario.name;
  record.scenario_text = scenario.text;
  record.label = options.label;
  record.started_at = iso8601(wall_ns());
  record.virtrain_version = virtrain_version;
  record.command_line = options.command_line;
  record.plan = to_json(plan);
  record.fingerprint = common_facts(facts);
  if (facts.size() == 1) {
    record.host_name = record.fingerprint["hostname"];
    record.boot_id = record.fingerprint["boot_id"];
  } else {  // the run's place: boots are the nodes' facts
    std::vector<std::string> names;
    for (const auto& [host, said] : facts) { names.push_back(host); }
    record.host_name = join(names, ", ");
  }
  return record;
}

/// Goes on with the loop until the work has ended; returns or throws what that does.
template <typename Result>
Result run_to_end(asio::io_context& io, asio::awaitable<Result> work) {
  auto result = asio::co_spawn(io, std::move(work), asio::use_future);
  io.restart();
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) { io.run_one(); }
  return result.get();
}

/// Takes the plan's cores and devices; with `wait`, again and again until they are free. False if a stop came
/// first. The id is told before the first word about waiting, and not at all where the resources are refused.
asio::awaitable<bool> acquire(RunContext& context, const ExperimentOptions& options) {
  bool told = false;
  std::string waits_for;
  const auto tell_id = [&] {
    if (!told && options.on_id) { options.on_id(context.experiment); }
    told = true;
  };
  const auto resources = resources_of(context.plan);
  while (true) {
    try {
      co_await context.hosts.ask(&RunHosts::acquire, resources);
      tell_id();
      co_return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::busy || !options.wait) { throw; }
      tell_id();
      if (error.message() != waits_for) { log::info("waiting", {{"for", error.message()}}); }
      waits_for = error.message();
    }
    asio::steady_timer again(context.io, busy_retry_period);
    co_await (again.async_wait(asio::use_awaitable) || context.stop.wait());
    if (context.stop.requested()) { co_return false; }
  }
}

/// mpirun of one node starts its daemons on the others, which must be of its own version.
void require_one_mpi(const ByHost<HostFacts>& facts) {
  for (const auto& difference : differences_of(facts)) {
    if (difference.field != "open_mpi") { continue; }
    throw Error("begin a run over several hosts", ErrorCode::host_unable,
                to_sentence(difference) + " (install one version of Open MPI on all)");
  }
}

/// Each host's copy of a job's payload, which must be the same on all.
asio::awaitable<void> take_payloads(RunContext& context) {
  const auto paths = payload_paths(context.plan);
  for (const auto& path : paths) {
    context.payloads[path] = co_await context.hosts.ask(&RunHosts::take_payload, path);
  }
}

/// False if a stop came before the host's resources were free: nothing has begun then.
asio::awaitable<bool> begin_experiment(RunContext& context, const vmctl::RunSpec& run,
                                       const ExperimentOptions& options) {
  co_await context.hosts.ask(&RunHosts::begin, run);
  if (!co_await acquire(context, options)) { co_return false; }
  const auto facts = co_await context.hosts.ask(&RunHosts::fingerprints);
  require_one_mpi(facts);
  co_await take_payloads(context);
  auto record = experiment_record(context.scenario, context.plan, options, context.experiment, facts);
  for (auto [host, said] : facts) { context.boot_ids.insert(said["boot_id"]); }
  if (const auto found = record.fingerprint.find("open_mpi"); found != record.fingerprint.end()) {
    context.mpi = mpi_dialect(found->second);
  }
  if (is_all_attached(context.scenario)) {  // its nodes are not of this host
    record.fingerprint.clear();
    record.boot_id.clear();
    record.host_name = place_of(context.plan, {});
  }
  context.store.add_experiment(record);
  for (const auto& difference : differences_of(facts)) {
    const auto words = to_sentence(difference);
    log::warning("hosts are not alike", {{"difference", words}});
    context.event(std::nullopt, "begin", "hosts are not alike", {.reason = words});
  }
  co_return true;
}

/// The last words in the database; false: it takes none any more.
bool end_in_database(RunContext& context, const ExperimentOutcome& outcome) {
  const bool stopped = outcome.stop_signal != 0;
  const bool failed = outcome.aborted_by.has_value() || outcome.failed > 0;
  const auto status = stopped ? Status::interrupted : failed ? Status::failed : Status::finished;
  try {
    if (outcome.aborted_by) {
      context.store.mark_interrupted(context.experiment);
    } else {
      context.store.end_experiment(context.experiment, status, iso8601(wall_ns()));
    }
    return true;
  } catch (const Error& error) {
    log::error(
        "the end of the experiment could not be stored; when the database can be written: virtrain clean",
        {{"reason", error.what()}});
    return false;
  }
}

}  // namespace

std::string label_fault(const std::string& label) {
  constexpr std::size_t longest_label_bytes = 1000;  // as import takes
  if (find_invalid_utf8(label) != std::string::npos) { return "a label is UTF-8, these bytes are not"; }
  return label.size() > longest_label_bytes ? "a label has at most 1000 bytes" : "";
}

ExperimentOutcome run_experiment(RunHosts& hosts, const Scenario& scenario, const Plan& planned,
                                 const std::filesystem::path& database, const ExperimentOptions& options) {
  ExperimentOutcome outcome;
  outcome.experiment = make_experiment_id();
  asio::io_context io;
  auto plan = planned;
  give_addresses(plan, outcome.experiment);
  constexpr std::size_t threads_of_one_host = 4;
  asio::thread_pool pool(std::max(threads_of_one_host, hosts.size() + 2));
  StopSource stop(io);
  const LoopThread this_thread;
  // Until the database is open, which may be waited for, a signal ends this process at once.
  end_at_once_on_stop_signals();
  results::Store store(database, results::Store::Mode::create, longest_database_wait);
  asio::signal_set signals(io);
  add_stop_signals(signals);
  const std::function<void()> listen = [&] {
    signals.async_wait([&](const boost::system::error_code& cancelled, int signal_number) {
      if (cancelled) { return; }
      log::warning(stop.requested() ? "still tearing down" : "stopping; tearing down",
                   {{"signal", signal_number}});
      stop.request(signal_number);
      hosts.cancel();
      listen();
    });
  };
  listen();

  const vmctl::RunSpec run{outcome.experiment, std::filesystem::absolute(database).string(), options.mode,
                           options.may_change_host, needed_programs(scenario, plan)};
  RunContext context{io, pool, stop, store, {hosts, pool}, scenario, plan, outcome.experiment};
  if (!run_to_end(io, begin_experiment(context, run, options))) {
    outcome.stop_signal = stop.signal_number();
    return outcome;
  }
  try {
    run_to_end(io, run_trials(context, options, outcome));
  } catch (const Error& error) {
    outcome.aborted_by = after_begin(error).code();
    outcome.first_failure = error.what();
  } catch (const std::exception& error) {
    outcome.aborted_by = ErrorCode::io;
    outcome.first_failure = error.what();
  }
  outcome.stop_signal = stop.signal_number();
  if (outcome.aborted_by) { log::error("the experiment cannot go on", {{"reason", outcome.first_failure}}); }
  run_to_end(io, context.hosts.ask(&RunHosts::end, end_in_database(context, outcome)));
  return outcome;
}

}  // namespace virtrain::harness
