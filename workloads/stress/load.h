#pragma once

#include "workloads/stress/flags.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace virtrain::stress {

/// One thread's work.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Does a piece that takes some milliseconds, never longer than a few tenths of a second even if a peer or
  /// disk is slow, and says how much it was. Throws Error.
  virtual std::uint64_t work() = 0;
};

/// What is loaded.
class Load {
 public:
  virtual ~Load() = default;
  /// "B", "operations" or "accesses": what work() counts.
  virtual const char* unit() const = 0;
  virtual int threads() const = 0;
  /// Worker number `index`, made by its own thread (so that its memory is near).
  virtual std::unique_ptr<Worker> make_worker(int index) = 0;
  /// The port that a listening load was given.
  virtual std::optional<int> port() const { return std::nullopt; }
};

/// The kind's load; opens what it needs. Throws Error.
std::unique_ptr<Load> make_load(const Flags& flags);

std::unique_ptr<Load> make_compute_load(const Flags& flags, int threads);  ///< cpu, llc, membw
std::unique_ptr<Load> make_disk_load(const Flags& flags, int threads);
std::unique_ptr<Load> make_sender(const Flags& flags, int threads);
std::unique_ptr<Load> make_receiver(const Flags& flags);

}  // namespace virtrain::stress
