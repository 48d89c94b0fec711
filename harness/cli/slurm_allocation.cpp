#include "harness/cli/slurm_allocation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/system/log.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr const char* allocating = "allocate nodes by salloc";
/// With a number of seconds salloc would wait for all of them before it says that nothing is free.
constexpr const char* now_or_never = "--immediate";
constexpr std::size_t most_said_bytes = 16384;
/// Where the command in the allocation finds the pipe for its number, and our standard error: a shell names
/// descriptors of one digit only.
constexpr int number_fd = 8, error_fd = 9;
/// salloc starts it. Until it is the command, its standard error is salloc's.
constexpr const char* start =
    "export VIRTRAIN_OWN_JOB=$SLURM_JOB_ID; echo $$ >&8; exec 8>&- 2>&9 9>&-; exec \"$0\" \"$@\"";

/// In front of what went wrong.
constexpr std::string_view error_mark = "error: ";

/// The lines of salloc that say what went wrong; where it marks none so, all lines.
std::string complaints_in(const std::string& said) {
  std::vector<std::string> found;
  for (const auto& line : split(said, '\n')) {
    const auto at = line.find(error_mark);
    if (at != std::string::npos) { found.push_back(line.substr(at + error_mark.size())); }
  }
  const auto words = excerpt(found.empty() ? std::string(trim(said)) : join(found, "; "), 400);
  return words.empty() ? "no message" : words;
}

struct Pipe {
  UniqueFd read, write;
};

/// Its ends are none of the descriptors that the child has of us.
Pipe make_high_pipe() {
  constexpr int above_all = 20;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) { throw errno_error("make a pipe", errno); }
  const UniqueFd read(ends[0]), write(ends[1]);
  return {UniqueFd(::fcntl(read.get(), F_DUPFD_CLOEXEC, above_all)),
          UniqueFd(::fcntl(write.get(), F_DUPFD_CLOEXEC, above_all))};
}

std::vector<std::string> salloc_command(const SlurmArguments& arguments, bool wait) {
  auto words = split_quoted(*arguments.words);
  for (const auto& word : words) {
    if (word == "--no-shell" || word == "--bell") {
      throw Error("read --slurm", ErrorCode::usage,
                  word + " makes no sense here (virtrain runs in the allocation)");
    }
  }
  const bool says_when = has_immediate(words);
  words.insert(words.begin(), {"salloc", "--kill-command=TERM"});
  if (!wait && !says_when) { words.emplace_back(now_or_never); }
  std::error_code failed;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) { throw Error("find virtrain's own program", ErrorCode::io, failed.message()); }
  words.insert(words.end(), {"/bin/sh", "-c", start, own.string()});
  const auto given = process_arguments(::getpid());
  words.insert(words.end(), given.begin() + 1, given.end());
  return words;
}

/// A salloc, and the command in it.
class Salloc {
 public:
  explicit Salloc(std::vector<std::string> words) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) { sigaddset(&heard_, signal); }
    ::sigprocmask(SIG_BLOCK, &heard_, &before_);
    signals_ = UniqueFd(::signalfd(-1, &heard_, SFD_CLOEXEC | SFD_NONBLOCK));
    auto number = make_high_pipe(), said = make_high_pipe();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, number.write.get(), number_fd);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, error_fd);
    posix_spawn_file_actions_adddup2(&actions, said.write.get(), STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &before_);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) { argv.push_back(word.data()); }
    argv.push_back(nullptr);
    const int failed = ::posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
      ::sigprocmask(SIG_SETMASK, &before_, nullptr);
      throw errno_error("start salloc", failed);
    }
    number_ = std::move(number.read);
    said_ = std::move(said.read);
  }
  Salloc(const Salloc&) = delete;
  Salloc& operator=(const Salloc&) = delete;
  ~Salloc() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  /// Waits for its end, and returns its exit status.
  int attend() {
    while (said_ || number_) {
      std::array<pollfd, 3> ready{pollfd{signals_.get(), POLLIN, 0},
                                  pollfd{said_ ? said_.get() : -1, POLLIN, 0},
                                  pollfd{number_ ? number_.get() : -1, POLLIN, 0}};
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) { throw errno_error("poll", errno); }
      if (ready[2].revents != 0) { hear_number(); }
      if (ready[1].revents != 0) { hear_words(); }
      if (ready[0].revents != 0) { pass_on(); }
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Whether the command has been started.
  bool has_begun() const { return command_ > 0; }
  const std::string& said() const { return said_so_far_; }

 private:
  void hear_number() {
    std::array<char, 32> bytes;
    const auto count = ::read(number_.get(), bytes.data(), bytes.size());
    if (count > 0) {
      digits_.append(bytes.data(), static_cast<std::size_t>(count));
    } else {
      command_ = static_cast<pid_t>(parse_integer(trim(digits_)).value_or(0));
      number_.reset();
    }
  }
  void hear_words() {
    std::array<char, 4096> bytes;
    const auto count = ::read(said_.get(), bytes.data(), bytes.size());
    if (count <= 0) {
      said_.reset();
      return;
    }
    line_.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1)) {
      const auto line = line_.substr(0, end);
      if (said_so_far_.size() + line.size() < most_said_bytes) { said_so_far_ += line + "\n"; }
      if (has_begun() || line.find(error_mark) == std::string::npos) { log::info(printable(line)); }
    }
    if (line_.size() > most_said_bytes) { line_.clear(); }
  }
  /// A terminal's own signals reach all of its processes.
  void pass_on() {
    signalfd_siginfo one{};
    if (::read(signals_.get(), &one, sizeof one) != sizeof one || one.ssi_code == SI_KERNEL) { return; }
    ::kill(command_ > 0 ? command_ : pid_, static_cast<int>(one.ssi_signo));
  }

  sigset_t heard_{}, before_{};
  UniqueFd signals_, number_, said_;
  pid_t pid_ = -1, command_ = 0;
  std::string digits_, line_, said_so_far_;
};

std::string network_of(const std::string& text, vmctl::HostNetwork& network) {
  const auto colon = text.find(':');
  const auto kind = enum_of<vmctl::HostNetworkKind>(text.substr(0, colon));
  if (!kind || *kind == vmctl::HostNetworkKind::none || colon == std::string::npos ||
      colon + 1 == text.size()) {
    return excerpt(text, 60) + " is not a network (allowed: vxlan:NIC, bridge:NAME, vf:NIC)";
  }
  network = {*kind, text.substr(colon + 1)};
  return "";
}

}  // namespace

CLI::Option* add_slurm_options(CLI::App& verb, SlurmArguments& arguments) {
  auto* slurm =
      verb.add_option("--slurm", arguments.words,
                      "Take the hosts from Slurm: options for salloc, such as \"-N4 --gpus-per-node=2 "
                      "--exclusive\"; inside of a job its own nodes, whatever is written here")
          ->type_name("OPTIONS");
  verb.add_option_function<std::string>(
          "--slurm-network",
          [&arguments](const std::string& text) {
            if (const auto why = network_of(text, arguments.network); !why.empty()) {
              throw CLI::ValidationError("--slurm-network", why);
            }
          },
          "By what tenants' nodes on several of those hosts reach each other: vxlan:NIC, bridge:NAME or "
          "vf:NIC")
      ->type_name("NETWORK")
      ->needs(slurm);
  return slurm;
}

namespace {

/// This process's command line inside of a new allocation.
int run_in_allocation(const SlurmArguments& arguments, bool wait) {
  if (on_path("salloc").empty()) {
    throw Error(allocating, ErrorCode::host_unable,
                "it is not installed on this machine (Debian: slurm-client)");
  }
  Salloc salloc(salloc_command(arguments, wait));
  const int status = salloc.attend();
  if (salloc.has_begun()) { return status; }
  throw Error(allocating, meaning_of_refusal(salloc.said()),
              fmt::format("exit status {}: {}", status, complaints_in(salloc.said())));
}

HostList nodes_of_job(const SlurmJob& job, const SlurmArguments& arguments,
                      std::optional<Elevation> elevation) {
  const char* const own = std::getenv("VIRTRAIN_OWN_JOB");  // of the salloc that this virtrain started
  if (!arguments.words->empty() && (own == nullptr || own != job.id)) {
    log::info("inside Slurm job " + printable(job.id) +
              ": its nodes are used, not those that --slurm asks for");
  }
  auto list = look_at_allocation(job, arguments.network, elevation.value_or(Elevation::none));
  std::vector<std::string> names;
  for (const auto& node : list.hosts) { names.push_back(node.name); }
  log::info("nodes of Slurm job " + printable(job.id), {{"nodes", printable(join(names, ", "))}});
  return list;
}

}  // namespace

std::optional<int> take_allocation(const SlurmArguments& arguments, const AllocationRequest& request,
                                   const std::function<void(HostList)>& take) {
  const auto job = current_slurm_job();
  if (!arguments.words) {
    if (job) {
      log::info("inside Slurm job " + printable(job->id) +
                ": only this machine is used (--slurm \"\" uses the job's nodes)");
    }
    return std::nullopt;
  }
  if (!job) { return run_in_allocation(arguments, request.wait); }
  take(nodes_of_job(*job, arguments, request.elevation));
  return std::nullopt;
}

void require_network(const HostList& hosts, const SlurmArguments& arguments) {
  if (hosts.hosts.size() < 2 || arguments.network.kind != vmctl::HostNetworkKind::none) { return; }
  throw Error(
      "use the nodes of the Slurm job", ErrorCode::usage,
      fmt::format(
          "{} need a network between them: --slurm-network vxlan:NIC, bridge:NAME or vf:NIC, of each node",
          counted(hosts.hosts.size(), "node")));
}

}  // namespace virtrain::harness
