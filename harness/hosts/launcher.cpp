#include "harness/hosts/launcher.h"

#include <boost/asio/buffer.hpp>
#include <spawn.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

std::vector<std::string> command_of(const HostRequest& request) {
  std::vector<std::string> words;
  if (request.elevation == Elevation::sudo) { words = {"sudo", "-n", "--"}; }
  words.push_back(sibling_program("virtrain-host").string());
  const auto options = host_options(request);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

enum class Errors { ours, kept };

/// Frames go over its standard input and output. Throws Error(io) with errno's words.
HostProcess spawn(std::vector<std::string> words, Errors errors) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) { argv.push_back(word.data()); }
  argv.push_back(nullptr);

  auto [ours, theirs] = make_socketpair();
  auto err = errors == Errors::kept ? make_pipe() : Pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  if (err.write) { posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO); }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const short apart = words[0] == "sudo" ? POSIX_SPAWN_SETPGROUP : short{POSIX_SPAWN_SETSID};
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(apart | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  HostProcess process{duplicate(ours.get()), std::move(ours), -1, std::move(err.read), {}};
  const int failed = ::posix_spawnp(&process.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) { throw errno_error("start " + words[0], failed); }
  return process;
}

HostProcess connected(const HostRequest& request) {
  if (request.mode && request.mode != vmctl::HostMode::system) {
    throw Error("start a host process", ErrorCode::usage,
                std::string(group_socket) + " serves mode system only (--privileges none, or sudo)");
  }
  auto socket = connect_to_group_socket();
  return {duplicate(socket.get()), std::move(socket), -1};
}

}  // namespace

std::vector<std::string> host_options(const HostRequest& request) {
  std::vector<std::string> words{"--log-level", to_string(log::least_level())};
  if (request.root != "/") {
    words.insert(words.end(), {"--root", std::filesystem::absolute(request.root).string()});
  }
  if (request.mode) { words.insert(words.end(), {"--mode", to_string(*request.mode)}); }
  if (request.with_vms) { words.emplace_back("--with-vms"); }
  return words;
}

HostProcess start_host(const HostRequest& request) {
  return request.elevation == Elevation::group ? connected(request)
                                               : spawn(command_of(request), Errors::ours);
}

HostProcess start_launcher(const std::vector<std::string>& words, const std::string& name) {
  if (words[0].find('/') == std::string::npos && on_path(words[0]).empty()) {
    throw Error("start " + excerpt(words[0]), ErrorCode::not_found,
                "the launcher is not installed on this machine");
  }
  auto process = spawn(words, Errors::kept);
  process.name = name;
  return process;
}

UniqueFd connect_to_group_socket() {
  return connect_to_local_socket(vmctl::group_socket, std::string("connect to ") + vmctl::group_socket);
}

namespace {

constexpr std::size_t most_kept_bytes = 2048;
constexpr std::size_t longest_line = 1000;
constexpr std::size_t read_bytes = 4096;
constexpr std::chrono::milliseconds for_more{200};

}  // namespace

LauncherWords::LauncherWords(boost::asio::io_context& io, UniqueFd err, std::string host)
    : err_(io), host_(std::move(host)), buffer_(read_bytes, '\0') {
  if (err) { err_.assign(err.release()); }
}

void LauncherWords::start() {
  if (err_.is_open()) { read(); }
}

void LauncherWords::read() {
  err_.async_read_some(boost::asio::buffer(buffer_),
                       [this](const boost::system::error_code& failed, std::size_t size) {
                         if (failed) { return; }
                         take(std::string_view(buffer_).substr(0, size));
                         read();
                       });
}

void LauncherWords::take(std::string_view bytes) {
  kept_ += bytes;
  if (kept_.size() > most_kept_bytes) { kept_.erase(0, kept_.size() - most_kept_bytes); }
  if (!is_logged_) { return; }
  unended_ += bytes;
  for (auto end = unended_.find('\n'); end != std::string::npos; end = unended_.find('\n')) {
    if (const auto line = trim(std::string_view(unended_).substr(0, end)); !line.empty()) {
      log::info(excerpt(line, longest_line), {{"host", host_}});
    }
    unended_.erase(0, end + 1);
  }
  if (unended_.size() > most_kept_bytes) { unended_.clear(); }
}

void LauncherWords::log_from_now_on() {
  if (const auto before = trim(kept_); !before.empty()) {
    log::debug(excerpt(before, longest_line), {{"host", host_}});
  }
  kept_.clear();
  is_logged_ = true;
}

std::string LauncherWords::said() {
  if (err_.is_open()) {
    char bytes[read_bytes];
    while (becomes_readable(err_.native_handle(), for_more)) {
      const auto size = ::read(err_.native_handle(), bytes, sizeof bytes);
      if (size <= 0) { break; }
      kept_.append(bytes, static_cast<std::size_t>(size));
      if (kept_.size() > most_kept_bytes) { break; }
    }
  }
  std::vector<std::string> lines;
  for (const auto& line : split(kept_, '\n')) {
    if (const auto words = trim(line); !words.empty()) { lines.emplace_back(words); }
  }
  return excerpt(join(lines, "; "), most_kept_bytes);
}

void LauncherWords::stop() {
  if (err_.is_open()) { err_.cancel(); }
}

}  // namespace virtrain::harness
