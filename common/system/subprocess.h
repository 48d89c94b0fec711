#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace virtrain {

/// The exit status that shells, mpirun and run_command report of a process which SIGKILL ended.
inline constexpr int killed_status = 128 + SIGKILL;

struct CommandResult {
  int exit_status = 0;  ///< exit code; 128 + signal if it was killed by one
  std::string out;      ///< standard output, at most max_output_bytes
  std::string err;      ///< standard error, likewise
};

struct CommandOptions {
  std::chrono::milliseconds deadline{
      30'000};  ///< past it the whole process group is killed and Error(timeout) thrown
  /// Past the deadline the command alone first gets SIGTERM, and this long to end by itself.
  std::chrono::milliseconds grace{0};
  /// Asked a few times a second while the command runs: the signal to send to it; 0: none.
  std::function<int()> next_signal = {};
  bool ends_with_us = false;  ///< SIGTERM reaches it when the thread that runs it ends, in whichever way
  int inherited = -1;         ///< a descriptor of ours that it has open too; -1: none
  std::string input;          ///< written to its standard input, which is then closed
  std::vector<std::string> environment;  ///< NAME=value added to ours
  bool plain_environment = false;        ///< of ours it inherits only what is_plain_variable() names
  std::size_t max_output_bytes = 4U << 20;
};

/// Whether a variable of ours may go to a process that others can read: PATH, HOME, those of XDG and the
/// language. Nobody keeps a token in them.
bool is_plain_variable(std::string_view name);

/// Where PATH finds the program; empty: nowhere.
std::filesystem::path on_path(const std::string& program);

/// Runs a command (argv[0] searched on PATH) and waits for it. Throws Error if it cannot start or overruns.
CommandResult run_command(const std::vector<std::string>& argv, const CommandOptions& options = {});

/// As run_command, and any exit status but 0 is an Error(io) with the command line and the end of its stderr.
CommandResult run_checked(const std::vector<std::string>& argv, const CommandOptions& options = {});

/// As run_checked, and once `cancelled` says so the command gets SIGTERM and the call ends in
/// Error(interrupted) of `operation`.
CommandResult run_cancellable(const std::vector<std::string>& argv, CommandOptions options,
                              const Cancelled& cancelled, const std::string& operation);

/// A pipe or socket whose reader has gone shall be an error of the write (EPIPE), not the end of this
/// process.
void ignore_broken_pipes();

/// A program that ships with virtrain: beside this executable, else in ../libexec/virtrain. Throws
/// Error(not_found).
std::filesystem::path sibling_program(std::string_view name);

/// Whether a process that waits for a child in its process group passes this signal on to it. A terminal's
/// Ctrl-C has reached the child already; the terminal's end (SIGHUP) is told to the first process of a
/// session alone.
inline bool is_passed_on(const siginfo_t& signal) {
  return signal.si_signo == SIGHUP || signal.si_code != SI_KERNEL;
}

}  // namespace virtrain
