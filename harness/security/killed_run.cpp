#include "harness/security/killed_run.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr const char* operation = "fill a device in a run that is killed";
/// The run has deadlines of its own for all that it waits for.
constexpr std::chrono::minutes deadline{60};
constexpr JsonLimits limits{.bytes = std::size_t{16} << 10, .depth = 2, .values = 50};

/// Its last line, which says why it ended.
std::string last_words(const std::string& errors) {
  const auto lines = split(trim(errors), '\n');
  return lines.empty() ? "" : printable(lines.back());
}

void clean_up_after(vmctl::Host& host, const std::string& experiment) {
  if (experiment.empty()) { return; }
  host.leftovers("", experiment);
  // Its database was for it alone and goes with it.
  const auto cleaned = host.clean([](const std::string&, const std::string&) { return true; });
  for (const auto& [leftover, reason] : cleaned.failed) {
    log::warning("something of the killed run could not be removed; run: virtrain clean",
                 {{"kind", leftover.kind}, {"name", leftover.name}, {"reason", reason}});
  }
}

}  // namespace

std::string line_of(const KilledRun& run) {
  return dump_json({{"record", "device_filled"},
                    {"experiment", run.experiment},
                    {"device", run.device},
                    {"canary", {{"name", run.canary.name}, {"text", run.canary.text}}},
                    {"bytes", run.filled.bytes},
                    {"total", run.filled.total_bytes},
                    {"read_back", run.filled.read_back},
                    {"lacks", run.lacks}});
}

KilledRun parse_killed_run(const std::string& lines) {
  for (const auto& line : split(lines, '\n')) {
    const auto record = parse_json_or_null(line, limits);
    if (!record.is_object() || record.value("record", nlohmann::json()) != "device_filled") { continue; }
    try {
      KilledRun run{record.at("experiment"),
                    record.at("device"),
                    {record.at("canary").at("name"), record.at("canary").at("text")},
                    {record.at("bytes"), record.at("total"), record.at("read_back")},
                    record.at("lacks")};
      if (!run.lacks.empty() || is_canary_text(run.canary.text)) { return run; }
    } catch (const nlohmann::json::exception&) {}  // said below
    throw Error(operation, ErrorCode::trial_failed, "its record 'device_filled' is odd");
  }
  throw Error(operation, ErrorCode::trial_failed, "it has no record 'device_filled'");
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

KilledRun kill_a_run(vmctl::Host& host, const std::vector<std::string>& command) {
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
