#include "vmctl/process/signs_of_life.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "common/files/reading.h"
#include "common/system/process_info.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {

std::chrono::nanoseconds cpu_time_of(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto close = text.rfind(')');
  if (close == std::string::npos) { return {}; }
  const auto fields = words_of(std::string_view(text).substr(close + 1));
  constexpr std::size_t utime = 11, cstime = 14;  // the fields after the name, see proc(5)
  if (fields.size() <= cstime) { return {}; }
  std::int64_t ticks = 0;
  for (auto field = utime; field <= cstime; ++field) { ticks += parse_integer(fields[field]).value_or(0); }
  return std::chrono::nanoseconds(ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
}

std::chrono::nanoseconds cpu_time_of_tree(pid_t root) {
  std::chrono::nanoseconds sum{};
  for (const auto pid : process_tree(root)) { sum += cpu_time_of(pid); }
  return sum;
}

std::chrono::nanoseconds WaitingTime::read(std::string_view states) {
  std::map<std::string, ThreadLook> threads;
  for (const auto& task : entries_of("/proc/" + std::to_string(process_) + "/task")) {
    const auto info = parse_proc_stat(read_file(task / "stat").value_or(""));
    const bool waits = info && states.find(info->state) != std::string_view::npos;
    threads[task.filename()] = {waits, read_file(task / "schedstat").value_or("")};
  }
  return add(threads, std::chrono::steady_clock::now());
}

std::chrono::nanoseconds WaitingTime::add(const std::map<std::string, ThreadLook>& threads,
                                          std::chrono::steady_clock::time_point now) {
  std::chrono::nanoseconds sum{};
  std::map<std::string, Wait> waits;
  for (const auto& [thread, look] : threads) {
    const auto fields = words_of(look.schedstat);
    if (fields.size() >= 2) { sum += std::chrono::nanoseconds(parse_integer(fields[1]).value_or(0)); }
    if (!look.ready) { continue; }
    const auto before = waits_.find(thread);
    const bool same = before != waits_.end() && before->second.schedstat == look.schedstat;
    const auto since = same ? before->second.since : now;
    sum += now - since;
    waits[thread] = {look.schedstat, since};
  }
  waits_ = std::move(waits);
  return sum;
}

SignsOfLife::SignsOfLife(CpuTime cpu_time, std::chrono::milliseconds still, std::chrono::milliseconds at_most)
    : cpu_time_(std::move(cpu_time)),
      still_(still),
      end_(std::chrono::steady_clock::now() + at_most),
      moved_at_(std::chrono::steady_clock::now()),
      seen_(cpu_time_()) {}

bool SignsOfLife::gave_up() {
  const auto now = std::chrono::steady_clock::now();
  if (const auto used = cpu_time_(); used != seen_) {
    seen_ = used;
    moved_at_ = now;
  }
  return now - moved_at_ > still_ || now > end_;
}

}  // namespace virtrain::vmctl
