#pragma once

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "common/error.h"

namespace CLI {
class App;
}

namespace virtrain {

/// "virtrain 0.1.0, g++ 12.2.0, Release": for the record "hello".
std::string build_text();
std::string host_name();

/// Our rank as mpirun's environment says it, for errors before MPI runs; 0 for a process that is alone.
int environment_rank();

/// Our rank among those on this host, and how many they are.
struct LocalRank {
  int rank = 0;
  int size = 1;
};
/// As mpirun's environment says it; alone without one.
LocalRank environment_local_rank();

/// A failure as a line on stderr and as the record "error".
void report_failure(const std::string& executable, const std::string& operation, const std::string& message);
/// From now on SIGTERM ends this process at once, after the same line and record ("error") of what it says.
/// mpirun sends it to the ranks that are left when one of them dies, which may then wait for it in MPI or
/// NCCL for ever. Exit status 143. A failure that is already being told is told to its end instead.
void report_termination(const std::string& executable);
/// Inside a catch block: reports the exception that is handled, under `operation` where it names none.
/// Returns the exit status of the workload: 2 for wrong usage, 4 where this host cannot do it, 75 where what
/// it needs is taken, 1 for any other failure.
int report_current_failure(const std::string& executable, const std::string& operation);

/// A command line that is not allowed, in words that say what is.
Error usage(const std::string& message);

/// Reads the command line into the app's options. Returns the help where it was asked for; Error(usage) for
/// what the app does not know or allow.
std::optional<std::string> parse_command_line(CLI::App& app, int argc, const char* const* argv);

/// main() of a workload: `parse` gives {help, flags}, `run` takes the flags and gives the exit status. Help
/// is printed; a failure, and SIGTERM, becomes a line on stderr, the record "error" (`operation`, where the
/// failure names none) and its exit status.
template <typename Parse, typename Run>
int run_program(const std::string& executable, const std::string& operation, Parse&& parse, Run&& run) {
  // NCCL and others write there as well; half a line of theirs in a buffer would take a record with it.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    const auto parsed = parse();
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return 0;
    }
    report_termination(executable);
    return run(parsed.flags);
  } catch (const std::exception&) { return report_current_failure(executable, operation); }
}

}  // namespace virtrain
