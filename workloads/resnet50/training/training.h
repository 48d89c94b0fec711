#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "workloads/common/peers/peers.h"
#include "workloads/common/processor.h"
#include "workloads/common/watchdog.h"
#include "workloads/resnet50/flags.h"
#include "workloads/resnet50/training/step_statistics.h"
#include "workloads/resnet50/training/trace.h"

/// A run of the trainer as the protocol wants it, whatever trains: "hello", "ready", the wait for "go",
/// warm-up, counted steps, "result".

namespace virtrain::resnet50 {

/// Order for one step.
struct StepOrder {
  bool stop_requested = false;  ///< on this rank; all ranks agree on the step after which they stop
  bool more_follow = false;     ///< unless it stops: the next step may already be started
};

struct StepResult {
  double seconds = 0;
  double loss = 0;
  std::optional<double> exposed_seconds;  ///< of communication that computing did not hide, where it is known
  bool stop = false;                      ///< some rank was told to stop; all ranks agree on it
};

/// Trains the model. Callers use one thread and the order of the declarations.
class TrainingBackend {
 public:
  virtual ~TrainingBackend() = default;

  /// Its own fields of the records "hello", "ready" and "result".
  virtual nlohmann::json hello() const = 0;
  /// Parameters, data, all that the first step needs. Where that lasts, the watchdog is told of each part.
  virtual void set_up(Watchdog& watchdog) = 0;
  /// Throws Error(trial_failed) where ranks differ in more than their parameters.
  virtual void check_ranks() {}
  virtual nlohmann::json ready() const { return nlohmann::json::object(); }
  virtual StepResult step(const StepOrder& order, Timeline& timeline) = 0;
  /// Fills what a GPU tells into what is known after a step of the warm-up.
  virtual void observe(WarmupStep&) const {}
  /// The warm-up is over.
  virtual void begin_counting() {}
  /// The counted steps are over: what follows (reading back, dumps, traces) is none of theirs.
  virtual void end_counting() {}
  virtual nlohmann::json result(std::int64_t images) = 0;
  /// Hash of all master parameters in the model's order and plain layout.
  virtual std::uint64_t parameters_hash() = 0;
  virtual void write_dump() const = 0;
};

using MakeBackend = std::function<std::unique_ptr<TrainingBackend>(const Flags&, Peers&)>;

/// All of a run but its flags, watched over: a failure becomes a line on stderr and the record "error", a run
/// that gets no further too, and ends all ranks. Returns the exit status.
int run_training(const std::string& executable, const Flags& flags, const MakeBackend& make_backend);

/// Throws Error(trial_failed) unless the loss is a number.
void require_finite(double loss);

// Values that all ranks of a job have to agree on.

/// Ranks on one host with the same mask (mpirun --bind-to none) divide its cores among themselves.
ThreadPlacement place_this_rank(Peers& peers, int requested_threads);

/// Throws Error(trial_failed) with the advice unless all ranks have the same value (of `what`).
void check_same_on_all_ranks(Peers& peers, std::uint64_t value, const std::string& what,
                             const std::string& advice);

/// "00ff…": how records show a hash.
std::string hex(std::uint64_t value);

}  // namespace virtrain::resnet50
