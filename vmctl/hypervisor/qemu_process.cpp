#include "vmctl/hypervisor/qemu_process.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "common/files/reading.h"
#include "common/system/process_info.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {

bool runs_domain(pid_t process, const std::string& domain) {
  const auto arguments = process_arguments(process);
  return std::ranges::any_of(arguments, [&](const auto& word) {
    return word == "guest=" + domain || word.starts_with("guest=" + domain + ",");
  });
}

namespace {

/// Whether it runs as this user or as libvirt's for QEMU: anybody's process may be named like one.
bool may_be_of_libvirt(pid_t process) {
  static const std::set<uid_t> users = [] {
    std::set<uid_t> known{::geteuid()};
    for (const auto* name : qemu_accounts) {
      if (const passwd* account = ::getpwnam(name)) { known.insert(account->pw_uid); }
    }
    return known;
  }();
  struct stat status {};
  return ::stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0 && users.contains(status.st_uid);
}

}  // namespace

std::optional<pid_t> qemu_pid(const std::string& domain) {
  std::vector<std::filesystem::path> folders{"/run/libvirt/qemu"};
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR")) {
    folders.push_back(std::filesystem::path(runtime) / "libvirt/qemu/run");
  }
  for (const auto& folder : folders) {
    const auto text = read_value(folder / (domain + ".pid"));
    const auto pid = static_cast<pid_t>(parse_integer(text.value_or("")).value_or(0));
    if (pid > 0 && runs_domain(pid, domain)) { return pid; }
  }
  for (const auto& process : all_processes()) {
    if (!process.name.starts_with("qemu-system") || !runs_domain(process.pid, domain)) { continue; }
    if (may_be_of_libvirt(process.pid)) { return process.pid; }
  }
  return std::nullopt;
}

std::optional<int> vcpu_of_thread(std::string_view thread_name) {
  constexpr std::string_view prefix = "CPU ";
  if (!thread_name.starts_with(prefix)) { return std::nullopt; }
  const auto slash = thread_name.find('/');
  if (slash == std::string_view::npos) { return std::nullopt; }
  const auto number = parse_integer(thread_name.substr(prefix.size(), slash - prefix.size()));
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::vector<VcpuStats> read_vcpu_threads(pid_t qemu) {
  std::vector<VcpuStats> vcpus;
  for (const auto& task : entries_of(std::filesystem::path("/proc") / std::to_string(qemu) / "task")) {
    const auto vcpu = vcpu_of_thread(read_value(task / "comm").value_or(""));
    if (!vcpu || *vcpu < 0 || *vcpu > 4096) { continue; }
    const auto fields = split(read_value(task / "schedstat").value_or(""), ' ');
    if (fields.size() < 2) {
      continue;  // "run_ns wait_ns slices"
    }
    if (vcpus.size() <= static_cast<std::size_t>(*vcpu)) {
      vcpus.resize(static_cast<std::size_t>(*vcpu) + 1);
    }
    auto& stats = vcpus[static_cast<std::size_t>(*vcpu)];
    stats.time_ns = static_cast<std::uint64_t>(parse_integer(fields[0]).value_or(0));
    stats.wait_ns = static_cast<std::uint64_t>(parse_integer(fields[1]).value_or(0));
  }
  return vcpus;
}

namespace {
/// A start's command line has some 10,000; a guest can have QEMU complain for ever.
constexpr std::size_t most_log_bytes = 256U << 10;
}  // namespace

std::string qemu_last_words(std::string_view log) {
  constexpr std::size_t lines = 5;
  std::vector<std::string> words;
  bool in_command = false;
  for (const auto& line : split(log, '\n')) {
    if (line.find(": starting up libvirt version: ") != std::string::npos) {
      words.clear();
      in_command = true;
    } else if (in_command) {
      in_command = line.ends_with('\\');
    } else if (!trim(line).empty() && line.find(" is tainted: ") == std::string::npos) {
      words.push_back(line);
    }
  }
  if (words.size() > lines) { words.erase(words.begin(), words.end() - lines); }
  return join(words, "\n");
}

std::string read_qemu_last_words(const std::string& domain, const std::filesystem::path& cache) {
  // Logs of libvirt's system daemon, and of a user's own.
  const auto own = cache.empty() ? user_cache_dir() : cache;
  const std::filesystem::path folders[] = {"/var/log/libvirt/qemu", own / "libvirt/qemu/log"};
  for (const auto& folder : folders) {
    if (const auto log = read_tail(folder / (domain + ".log"), most_log_bytes)) {
      return qemu_last_words(*log);
    }
  }
  return {};
}

}  // namespace virtrain::vmctl
