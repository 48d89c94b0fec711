#include "workloads/common/program.h"

#include <CLI/CLI.hpp>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "common/version.h"
#include "workloads/common/protocol.h"

namespace virtrain {
namespace {

int environment_number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<int>(parse_integer(text).value_or(otherwise));
}

std::string failure_line(const std::string& executable, const std::string& operation,
                         const std::string& message) {
  return executable + ": " + operation + ": " + message + "\n";
}

nlohmann::json failure_fields(const std::string& operation, const std::string& message) {
  constexpr std::size_t longest_text = 1500;  // bytes; with JSON's escapes the record still fits
  return {{"operation", printable(operation, longest_text / 4)},
          {"message", printable(message, longest_text)}};
}

/// Texts that the handler of SIGTERM writes: it may allocate nothing, so all of it is made before.
struct LastWords {
  std::string line, record;
};
const LastWords* last_words = nullptr;
std::atomic<bool> failure_is_told = false;

/// Whatever our threads wait for. Nobody may read our output any more: then SIGALRM ends us, or mpirun.
extern "C" void tell_and_end(int /*signal*/) {
  constexpr unsigned grace_seconds = 5;
  if (failure_is_told.exchange(true)) { return; }
  alarm(grace_seconds);
  for (const auto& [fd, text] :
       {std::pair(STDERR_FILENO, &last_words->line), std::pair(STDOUT_FILENO, &last_words->record)}) {
    if (::write(fd, text->data(), text->size()) < 0) {
      continue;  // all the more do we end
    }
  }
  _exit(128 + SIGTERM);
}

}  // namespace

std::string build_text() {
  return std::string("virtrain ") + virtrain_version + ", g++ " + __VERSION__ + ", " + VIRTRAIN_BUILD_TYPE;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int environment_rank() {
  return environment_number("OMPI_COMM_WORLD_RANK", 0);
}

LocalRank environment_local_rank() {
  return {environment_number("OMPI_COMM_WORLD_LOCAL_RANK", 0),
          environment_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1)};
}

void report_failure(const std::string& executable, const std::string& operation, const std::string& message) {
  failure_is_told = true;
  std::fputs(failure_line(executable, operation, message).c_str(), stderr);
  write_record("error", environment_rank(), failure_fields(operation, message));
}

void report_termination(const std::string& executable) {
  const std::string operation = "run";
  const std::string message =
      "ended by SIGTERM (exit status 143): another rank may be gone (killed, perhaps out of memory; or "
      "its machine is), or somebody ended the job";
  nlohmann::json record = failure_fields(operation, message);
  record.update({{"record", "error"}, {"rank", environment_rank()}});
  static const LastWords words{failure_line(executable, operation, message), record.dump() + "\n"};
  last_words = &words;
  struct sigaction action {};
  action.sa_handler = tell_and_end;
  action.sa_flags = SA_RESTART;  // where it returns
  if (::sigaction(SIGTERM, &action, nullptr) != 0) { throw errno_error("handle SIGTERM", errno); }
}

int report_current_failure(const std::string& executable, const std::string& operation) {
  try {
    throw;
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    const bool is_refusal = error.code() == ErrorCode::usage || error.code() == ErrorCode::host_unable ||
                            error.code() == ErrorCode::busy;
    return is_refusal ? exit_status(error.code()) : 1;
  } catch (const std::exception& error) {
    report_failure(executable, operation, error.what());
    return 1;
  }
}

Error usage(const std::string& message) {
  return Error("parse flags", ErrorCode::usage, message);
}

std::optional<std::string> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) { return app.help(); } catch (const CLI::ParseError& error) {
    throw usage(std::string(error.what()) + " (--help lists what is allowed)");
  }
  return std::nullopt;
}

}  // namespace virtrain
