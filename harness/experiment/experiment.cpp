#include "harness/experiment/experiment.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <random>
#include <set>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/version.h"
#include "harness/experiment/experiment_runner.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/stop_signals.h"
#include "harness/job/programs.h"

namespace virtrain::harness {
namespace {

constexpr std::chrono::seconds busy_retry_period{2};

std::string make_experiment_id() {
  std::random_device device;
  return fmt::format("{:%Y%m%dt%H%M%S}-{:06x}",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns() / 1'000'000'000)), device() & 0xffffff);
}

std::vector<std::string> resources_of(const Plan& plan) {
  std::set<std::string> names;
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        for (const int core : node.cores) { names.insert(fmt::format("core:{}", core)); }
        for (const auto& device : node.devices) {
          names.insert("device:" + device.grant.address);
          // How a card is set is so for all of its vGPUs.
          if (is_made_for_each_vm(device.grant)) { names.insert("device:" + card_of(device.grant)); }
        }
      }
    }
  }
  return {names.begin(), names.end()};
}

results::Experiment experiment_record(const Scenario& scenario, const Plan& plan,
                                      const ExperimentOptions& options, const std::string& id,
                                      std::map<std::string, std::string> fingerprint) {
  results::Experiment record;
  record.id = id;
  record.scenario = scenario.name;
  record.scenario_text = scenario.text;
  record.label = options.label;
  record.started_at = iso8601(wall_ns());
  record.virtrain_version = virtrain_version;
  record.command_line = options.command_line;
  record.plan = to_json(plan);
  record.fingerprint = std::move(fingerprint);
  record.host_name = record.fingerprint["hostname"];
  record.boot_id = record.fingerprint["boot_id"];
  return record;
}

/// Takes the plan's cores and devices; with `wait`, again and again until they are free. False if a stop came
/// first. The id is told before the first word about waiting, and not at all where the resources are refused.
bool acquire(RunContext& context, const ExperimentOptions& options) {
  bool told = false;
  std::string waits_for;
  const auto tell_id = [&] {
    if (!told && options.on_id) { options.on_id(context.experiment); }
    told = true;
  };
  const auto resources = resources_of(context.plan);
  while (true) {
    try {
      context.host.acquire(resources);
      tell_id();
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::busy || !options.wait) { throw; }
      tell_id();
      if (error.message() != waits_for) { log::info("waiting", {{"for", error.message()}}); }
      waits_for = error.message();
    }
    context.io.restart();
    const auto again = std::chrono::steady_clock::now() + busy_retry_period;
    while (!context.stop.requested() && context.io.run_one_until(again) > 0) {}
    if (context.stop.requested()) { return false; }
  }
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

ExperimentOutcome run_experiment(vmctl::Host& host, const Scenario& scenario, const Plan& plan,
                                 const std::filesystem::path& database, const ExperimentOptions& options) {
  ExperimentOutcome outcome;
  outcome.experiment = make_experiment_id();
  asio::io_context io;
  asio::thread_pool pool(4);
  StopSource stop(io);
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
      host.cancel();
      listen();
    });
  };
  listen();

  host.begin({outcome.experiment, std::filesystem::absolute(database).string(), options.mode,
              options.may_change_host, needed_programs(scenario, plan)});
  RunContext context{io, pool, stop, store, host, scenario, plan, outcome.experiment};
  if (!acquire(context, options)) {  // nothing has begun
    outcome.stop_signal = stop.signal_number();
    return outcome;
  }
  const auto record = experiment_record(scenario, plan, options, outcome.experiment, host.fingerprint());
  context.boot_id = record.boot_id;
  if (const auto found = record.fingerprint.find("open_mpi"); found != record.fingerprint.end()) {
    context.mpi = mpi_dialect(found->second);
  }
  store.add_experiment(record);

  std::exception_ptr failure;
  const auto on_end = [&](std::exception_ptr error) {
    failure = error;
    signals.cancel();
  };
  io.restart();
  asio::co_spawn(io, run_trials(context, options, outcome), on_end);
  io.run();
  pool.join();

  outcome.stop_signal = stop.signal_number();
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      outcome.aborted_by = after_begin(error).code();
      outcome.first_failure = error.what();
    } catch (const std::exception& error) {
      outcome.aborted_by = ErrorCode::io;
      outcome.first_failure = error.what();
    }
    log::error("the experiment cannot go on", {{"reason", outcome.first_failure}});
  }
  host.end(end_in_database(context, outcome));
  return outcome;
}

}  // namespace virtrain::harness
