#include "harness/security/killed_run.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/described_json.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr const char* device_filled = "device_filled";
constexpr const char* operation = "fill a device in a run that is killed";
/// The run has deadlines of its own for all that it waits for.
constexpr std::chrono::minutes deadline{60};
constexpr std::chrono::minutes end_deadline{5};
constexpr std::chrono::milliseconds end_look_interval{500};
constexpr JsonLimits limits{.bytes = std::size_t{16} << 10, .depth = 2, .values = 50};

/// Its last line, which says why it ended.
std::string last_words(const std::string& errors) {
  const auto lines = split(trim(errors), '\n');
  return lines.empty() ? "" : printable(lines.back());
}

/// Its host process undoes by itself what the run had made, and says with its end that it has.
void await_end(vmctl::HostLending& host, const std::string& experiment) {
  const auto end = std::chrono::steady_clock::now() + end_deadline;
  while (host.leftovers("", experiment).live.contains(experiment)) {
    if (std::chrono::steady_clock::now() > end) {
      throw Error(operation, ErrorCode::timeout, "its virtrain-host has not ended");
    }
    std::this_thread::sleep_for(end_look_interval);
  }
}

void clean_up_after(vmctl::HostLending& host, const std::string& experiment) {
  if (experiment.empty()) { return; }
  await_end(host, experiment);
  // Its database was for it alone and goes with it.
  const auto cleaned = host.clean();
  host.forget({experiment});
  for (const auto& [leftover, reason] : cleaned.failed) {
    log::warning("something of the killed run could not be removed; run: virtrain clean",
                 {{"kind", leftover.kind}, {"name", leftover.name}, {"reason", reason}});
  }
}

}  // namespace

std::string line_of(const KilledRun& run) {
  auto told = message_json(run);
  told.update(message_json(run.filled));
  told["record"] = device_filled;
  return dump_json(told);
}

KilledRun parse_killed_run(const std::string& lines) {
  for (const auto& line : split(lines, '\n')) {
    const auto record = parse_json_or_null(line, limits);
    if (text_in(record, "record") != device_filled) { continue; }
    KilledRun run;
    const bool fits = read_record(record, run).empty() && read_record(record, run.filled).empty();
    if (fits && (!run.lacks.empty() || is_canary_text(run.canary.text))) { return run; }
    throw Error(operation, ErrorCode::trial_failed, fmt::format("its record '{}' is odd", device_filled));
  }
  throw Error(operation, ErrorCode::trial_failed, fmt::format("it has no record '{}'", device_filled));
}

std::function<void(const KilledRun&)> tell_and_die(std::function<void(const std::string&)> print) {
  const auto told = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != told) {
    throw Error(operation, ErrorCode::interrupted, "the process that started it has ended");
  }
  return [print = std::move(print)](const KilledRun& run) {
    print(line_of(run) + "\n");
    if (run.lacks.empty()) { ::raise(SIGKILL); }
  };
}

KilledRun kill_a_run(vmctl::HostLending& host, const std::vector<std::string>& command) {
  KilledRun run;
  try {
    CommandOptions options;
    options.deadline = deadline;
    const auto result = run_command(command, options);
    const auto words = last_words(result.err);
    run.failure = fmt::format("the run that was to be killed ended with exit status {}{}{}",
                              result.exit_status, words.empty() ? "" : ": ", words);
    auto told = parse_killed_run(result.out);
    if (result.exit_status != (told.lacks.empty() ? killed_status : 0)) { return run; }
    run = std::move(told);
    clean_up_after(host, run.experiment);
  } catch (const Error& error) {
    if (run.failure.empty()) { run.failure = error.what(); }
  }
  return run;
}

}  // namespace virtrain::harness
