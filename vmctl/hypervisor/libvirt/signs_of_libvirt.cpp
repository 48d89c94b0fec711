#include "vmctl/hypervisor/libvirt/signs_of_libvirt.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/system/process_info.h"

namespace virtrain::vmctl {
namespace {

bool is_daemon(const ProcessInfo& process) {
  constexpr std::array<std::string_view, 3> names = {"libvirtd", "virtqemud", "virtnetworkd"};
  return std::ranges::find(names, process.name) != names.end();
}

/// QEMU as libvirt asks it what it can do (qemuProcessQMPLaunch in src/qemu/qemu_process.c). It is no child
/// of the daemon's, which stands still until it answers.
bool answers_libvirt(const ProcessInfo& process) {
  const auto arguments = process_arguments(process.pid);
  return process.name.starts_with("qemu") &&
         std::ranges::any_of(arguments, [](const auto& one) { return one.starts_with("none,accel="); });
}

}  // namespace

std::chrono::nanoseconds SignsOfLibvirt::operator()() {
  std::chrono::nanoseconds sum{};
  std::map<pid_t, WaitingTime> waiting;
  for (const auto& process : all_processes()) {
    if (!is_daemon(process) && !answers_libvirt(process)) { continue; }
    for (const auto pid : process_tree(process.pid)) {
      const auto before = waiting_.find(pid);
      auto& own = waiting[pid] = before == waiting_.end() ? WaitingTime(pid) : before->second;
      sum += cpu_time_of(pid) + own.read("RD");
    }
  }
  waiting_ = std::move(waiting);
  constexpr std::chrono::milliseconds tick{10};
  return sum / tick * tick;
}

}  // namespace virtrain::vmctl
