#include "harness/agent/client/node_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/error.h"
#include "common/text/units.h"

namespace virtrain::harness {

bool TokenBucket::take(double amount, std::int64_t now_ns) {
  if (filled_ns_ != 0) {
    left_ = std::min(burst_, left_ + per_second_ * static_cast<double>(now_ns - filled_ns_) * 1e-9);
  }
  filled_ns_ = now_ns;
  if (amount > left_) { return false; }
  left_ -= amount;
  return true;
}

NodeBudget::NodeBudget()
    : limits_{
          // 32 ranks of 100 steps a second, whose lines come one by one through mpirun in the first node.
          {"", "messages", false, {5'000, 50'000}},
          {"", "bytes", true, {4 << 20, 64 << 20}},
          // Asked for once a second. After a pause of the node, or of ours (a locked database is waited for),
          // three minutes of them come at once.
          {"telemetry", "telemetry messages", false, {2, 180}},
          // mpirun starts one daemon a node.
          {"rsh", "remote shells", false, {2, 256}},
          {"rsh_closed", "ends of remote shells", false, {2, 256}},
          {"announce", "announcements", false, {0.1, 4}},
      } {}

void NodeBudget::take(std::string_view type, std::size_t bytes, std::int64_t now_ns) {
  for (auto& limit : limits_) {
    if (!limit.type.empty() && limit.type != type) { continue; }
    if (!limit.bucket.take(limit.counts_bytes ? static_cast<double>(bytes) : 1, now_ns)) {
      throw Error("listen to a node", ErrorCode::protocol,
                  limit.counts_bytes
                      ? fmt::format("it sent more than {} at once and {} a second after that; what its "
                                    "processes print is sent, too (let them print less)",
                                    format_size(static_cast<std::uint64_t>(limit.bucket.burst())),
                                    format_size(static_cast<std::uint64_t>(limit.bucket.per_second())))
                      : fmt::format("it sent more than {:.0f} {} at once and {:g} a second after that",
                                    limit.bucket.burst(), limit.unit, limit.bucket.per_second()));
    }
  }
}

std::chrono::nanoseconds usable_time(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds waited) {
  return elapsed - std::clamp(waited, std::chrono::nanoseconds(0), elapsed * 9 / 10);
}

FairDeadline::FairDeadline(std::chrono::nanoseconds deadline, WaitingTime waiting_time)
    : deadline_(deadline),
      waiting_time_(std::move(waiting_time)),
      waited_before_(waiting_time_ ? waiting_time_() : std::chrono::nanoseconds(0)) {}

std::chrono::nanoseconds FairDeadline::left() const {
  const auto waited = waiting_time_ ? waiting_time_() - waited_before_ : std::chrono::nanoseconds(0);
  return deadline_ - usable_time(std::chrono::steady_clock::now() - began_, waited);
}

}  // namespace virtrain::harness
