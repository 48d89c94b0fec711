#include "common/system/process_info.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain {
namespace {

std::filesystem::path proc_dir(pid_t pid) {
  return std::filesystem::path("/proc") / std::to_string(pid);
}

}  // namespace

std::optional<ProcessInfo> parse_proc_stat(std::string_view text) {
  // "pid (name) state ppid ...": the name may itself contain blanks and brackets.
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  const auto fields = split(trim(text.substr(close + 1)), ' ');
  constexpr std::size_t state_field = 0, parent_field = 1, threads_field = 17, start_time_field = 19;
  if (fields.size() <= start_time_field || fields[state_field].size() != 1) { return std::nullopt; }
  const auto number = [&](std::size_t i) { return parse_integer(fields[i]).value_or(0); };
  ProcessInfo info;
  info.pid = static_cast<pid_t>(parse_integer(trim(text.substr(0, open))).value_or(0));
  info.parent = static_cast<pid_t>(number(parent_field));
  info.name = text.substr(open + 1, close - open - 1);
  info.state = fields[state_field][0];
  info.threads = number(threads_field);
  info.start_time = static_cast<std::uint64_t>(number(start_time_field));
  return info;
}

std::optional<ProcessInfo> process_info(pid_t pid) {
  const auto text = read_file(proc_dir(pid) / "stat");
  auto info = text ? parse_proc_stat(*text) : std::nullopt;
  if (info && info->state == 'Z' && info->threads <= 1) { return std::nullopt; }
  return info;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> processes;
  for (const auto& name : entry_names("/proc")) {
    const auto pid = parse_integer(name);
    if (!pid) { continue; }
    if (auto info = process_info(static_cast<pid_t>(*pid))) { processes.push_back(std::move(*info)); }
  }
  return processes;
}

std::vector<std::string> process_arguments(pid_t pid) {
  auto text = read_file(proc_dir(pid) / "cmdline");
  if (!text || text->empty()) { return {}; }
  if (text->back() == '\0') { text->pop_back(); }
  return split(*text, '\0');
}

std::optional<std::string> process_variable(pid_t pid, std::string_view name) {
  for (const auto& entry : split(read_file(proc_dir(pid) / "environ").value_or(""), '\0')) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::optional<uid_t> user_of(pid_t pid) {
  const auto status = read_file(proc_dir(pid) / "status").value_or("");
  const auto number = parse_integer(split(line_value(status, "Uid"), '\t').at(0));  // the real one is first
  return number ? std::optional(static_cast<uid_t>(*number)) : std::nullopt;
}

std::vector<pid_t> process_tree(pid_t root) {
  const auto processes = all_processes();
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    for (const auto& process : processes) {
      if (process.parent == tree[i] && process.pid != tree[i]) { tree.push_back(process.pid); }
    }
  }
  return tree;
}

bool kill_and_wait(pid_t pid, std::uint64_t start_time) {
  // The descriptor stays this process's, whoever has its number later; so it comes before the look.
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto before = process_info(pid);
  if (!before || (start_time != 0 && before->start_time != start_time)) { return true; }
  if (!process || ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) != 0) {
    ::kill(pid, SIGKILL);
  }
  constexpr int tries = 500;
  for (int i = 0; i < tries; ++i) {
    const auto now = process_info(pid);
    if (!now || now->start_time != before->start_time) { return true; }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void end_descendants(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause(10);
  for (auto waited = pause; waited <= patience; waited += pause) {
    const auto tree = process_tree(::getpid());
    for (std::size_t i = 1; i < tree.size(); ++i) { ::kill(tree[i], SIGKILL); }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
    if (tree.size() == 1) { return; }
    std::this_thread::sleep_for(pause);
  }
}

std::string boot_id() {
  return read_value("/proc/sys/kernel/random/boot_id").value_or("");
}

}  // namespace virtrain
