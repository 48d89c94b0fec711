#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace virtrain::harness {

/// A rate with room for bursts: holds at most `burst`, and fills up by `per_second`.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}
  /// False where so much is no longer there.
  bool take(double amount, std::int64_t now_ns);
  double per_second() const { return per_second_; }
  double burst() const { return burst_; }

 private:
  double per_second_, burst_, left_;
  std::int64_t filled_ns_ = 0;
};

/// Bounds of the messages that one node may send, by kind: some ten times the most that a trial has been seen
/// to send. A node that exceeds them lies or runs wild, and its conversation ends before memory, disk or the
/// other nodes suffer. All limits are in the table of node_budget.cpp.
class NodeBudget {
 public:
  NodeBudget();
  /// Counts one message of this type and so many bytes. Throws Error(protocol) where it is too much.
  void take(std::string_view type, std::size_t bytes, std::int64_t now_ns);

 private:
  struct Limit {
    std::string_view type;  ///< empty: of all types
    const char* unit;
    bool counts_bytes;
    TokenBucket bucket;
  };
  std::vector<Limit> limits_;
};

/// How long a node's processes have so far been ready to run while the host gave its cores to others.
using WaitingTime = std::function<std::chrono::nanoseconds()>;

/// A deadline in time that the node could use: short for what stands still, patient with what is alive on a
/// busy host, up to ten times as long.
class FairDeadline {
 public:
  FairDeadline(std::chrono::nanoseconds deadline, WaitingTime waiting_time);

  /// Until it passes, if nobody else wants the cores from now on; zero or less: it has passed.
  std::chrono::nanoseconds left() const;
  std::chrono::nanoseconds total() const { return deadline_; }

 private:
  std::chrono::nanoseconds deadline_;
  WaitingTime waiting_time_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds waited_before_;
};

/// The part of an interval that the node could use: at least a tenth, for the threads of a node wait side by
/// side.
std::chrono::nanoseconds usable_time(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds waited);

}  // namespace virtrain::harness
