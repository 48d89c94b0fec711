#include "common/system/subprocess.h"

#include <boost/asio.hpp>
#include <boost/process.hpp>
#include <boost/process/extend.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain {
namespace {

namespace bp = boost::process;

void read_bounded(bp::async_pipe& pipe, std::vector<char>& chunk, std::string& into, std::size_t limit) {
  pipe.async_read_some(boost::asio::buffer(chunk),
                       [&, limit](const boost::system::error_code& error, std::size_t got) {
                         if (into.size() < limit) {
                           into.append(chunk.data(), std::min(got, limit - into.size()));
                         }
                         if (!error) { read_bounded(pipe, chunk, into, limit); }
                       });
}

int wait_status_to_exit(int native) {
  return WIFSIGNALED(native) ? 128 + WTERMSIG(native) : WEXITSTATUS(native);
}

/// Between fork and exec.
void set_up_child(const CommandOptions& options, pid_t parent) {
  if (options.inherited >= 0) { ::fcntl(options.inherited, F_SETFD, 0); }
  if (!options.ends_with_us) { return; }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) { ::_exit(killed_status); }
}

/// Until the pipes end, which they do with the command and all who inherited them; false: not in that time.
bool serve(boost::asio::io_context& io, const bp::child& child, const CommandOptions& options,
           std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds pause{200};
  const auto end = std::chrono::steady_clock::now() + time;
  while (!io.stopped() && std::chrono::steady_clock::now() < end) {
    if (!options.next_signal) {
      io.run_until(end);
      continue;
    }
    io.run_until(std::min(end, std::chrono::steady_clock::now() + pause));
    if (const int signal = options.next_signal(); signal != 0) { ::kill(child.id(), signal); }
  }
  return io.stopped();
}

/// Polls: Boost's own wait_for() can miss the end of a child that ends first and then sleeps its whole time.
bool ends_soon(bp::child& child) {
  std::error_code ignored;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5); child.running(ignored);) {
    if (std::chrono::steady_clock::now() > end) { return false; }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

void ignore_broken_pipes() {
  ::signal(SIGPIPE, SIG_IGN);
}

bool is_plain_variable(std::string_view name) {
  return name == "PATH" || name == "HOME" || name == "LANG" || name.starts_with("LC_") ||
         name.starts_with("XDG_");
}

std::filesystem::path on_path(const std::string& program) {
  return bp::search_path(program);
}

CommandResult run_command(const std::vector<std::string>& argv, const CommandOptions& options) {
  ignore_broken_pipes();  // the command may end without reading its input
  const std::string operation = "run " + join(argv, " ");
  const auto program =
      argv.at(0).find('/') == std::string::npos ? on_path(argv[0]) : std::filesystem::path(argv[0]);
  if (program.empty()) { throw Error(operation, ErrorCode::not_found, argv[0] + " is not on PATH"); }

  auto environment = boost::this_process::environment();
  bp::environment with_ours = environment;
  if (options.plain_environment) {
    for (const auto& entry : environment) {
      if (!is_plain_variable(entry.get_name())) { with_ours.erase(entry.get_name()); }
    }
  }
  for (const auto& entry : options.environment) {
    const auto equals = entry.find('=');
    with_ours[entry.substr(0, equals)] = entry.substr(equals + 1);
  }

  boost::asio::io_context io;
  bp::async_pipe out(io), err(io), in(io);
  bp::group group;
  std::error_code failed;
  bp::child child(
      program, bp::args(std::vector<std::string>(argv.begin() + 1, argv.end())), with_ours, bp::std_out > out,
      bp::std_err > err, bp::std_in < in, group,
      bp::extend::on_exec_setup = [&, us = ::getpid()](auto&) { set_up_child(options, us); }, failed);
  if (failed) { throw Error(operation, ErrorCode::io, failed.message()); }

  CommandResult result;
  std::vector<char> out_chunk(65536), err_chunk(65536);
  read_bounded(out, out_chunk, result.out, options.max_output_bytes);
  read_bounded(err, err_chunk, result.err, options.max_output_bytes);
  boost::asio::async_write(in, boost::asio::buffer(options.input),
                           [&](const boost::system::error_code&, std::size_t) { in.close(); });

  std::error_code ignored;
  const bool overran = !serve(io, child, options, options.deadline) || !ends_soon(child);
  if (overran) {
    if (options.grace.count() > 0) {
      ::kill(child.id(), SIGTERM);
      serve(io, child, options, options.grace);
    }
    group.terminate(ignored);
    if (!ends_soon(child)) { child.detach(); }  // the kernel does not let go of it
    throw Error(operation, ErrorCode::timeout,
                fmt::format("still running after {} ms", options.deadline.count()));
  }
  result.exit_status = wait_status_to_exit(child.native_exit_code());
  return result;
}

CommandResult run_checked(const std::vector<std::string>& argv, const CommandOptions& options) {
  CommandResult result = run_command(argv, options);
  if (result.exit_status == 0) { return result; }
  const std::string_view words = trim(result.err.empty() ? result.out : result.err);
  constexpr std::size_t tail = 600;
  throw Error("run " + join(argv, " "), ErrorCode::io,
              fmt::format("exit status {}: {}", result.exit_status,
                          printable(words.substr(words.size() > tail ? words.size() - tail : 0))));
}

CommandResult run_cancellable(const std::vector<std::string>& argv, CommandOptions options,
                              const Cancelled& cancelled, const std::string& operation) {
  end_if(cancelled, operation);
  if (cancelled) {
    options.next_signal = [&cancelled] { return cancelled() ? SIGTERM : 0; };
  }
  try {
    return run_checked(argv, options);
  } catch (const Error&) {
    end_if(cancelled, operation);
    throw;
  }
}

namespace fs = std::filesystem;

fs::path sibling_program(std::string_view name) {
  std::error_code failed;
  const auto here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Beside us (a build tree), or where `cmake --install` puts helpers, and what users start.
  for (const auto& candidate :
       {here / name, here / "../libexec/virtrain" / name, here / "../../bin" / name}) {
    if (fs::exists(candidate)) { return candidate.lexically_normal(); }
  }
  throw Error(
      "find " + std::string(name), ErrorCode::not_found,
      "it should lie in " + here.string() + " or ../libexec/virtrain; build all targets or reinstall");
}

}  // namespace virtrain
