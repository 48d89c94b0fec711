#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "workloads/common/gpu/nvml.h"

namespace virtrain {

/// States of a GPU during a measurement, looked at again and again. Values that it does not give stay absent.
class GpuCourse {
 public:
  void add(std::int64_t t_ns, const GpuState& state);

  std::size_t samples() const { return samples_; }
  const GpuState& latest() const { return latest_; }
  /// Joules between the first sample and the last: by the GPU's own counter, else by mean power and time.
  std::optional<double> energy_j() const;

  /// {"samples", "seconds", "sm_clock_mhz": {"min","mean","max"}, "memory_clock_mhz", "temperature_c",
  /// "power_w", "energy_j", "energy_from": "counter"|"power", "images_per_joule", "throttled": {reason: share
  /// of the samples}}; null for what is unknown.
  nlohmann::json to_json(std::optional<std::int64_t> images) const;
  /// All reasons to throttle that any sample gave, each once; nothing if no sample told.
  std::optional<std::vector<std::string>> throttle_reasons() const;

 private:
  struct Range {
    std::size_t count = 0;
    double least = 0, sum = 0, most = 0;
    void add(std::optional<double> value);
    nlohmann::json to_json() const;
  };
  double seconds() const { return static_cast<double>(last_ns_ - first_ns_) * 1e-9; }
  bool has_counter() const { return first_energy_j_ && latest_.energy_j; }

  std::size_t samples_ = 0;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  GpuState latest_;
  std::optional<double> first_energy_j_;
  Range sm_clock_, memory_clock_, temperature_, power_;
  std::size_t throttle_samples_ = 0;  ///< that told, be it "none"
  std::map<std::string, std::size_t> throttled_;
};

/// The object `gpu` of the records "hello", "ready" and "result", by the names of nvml.h: who the GPU is and
/// what its health is, both read here, at each end of a run, for what compares the two (a power limit that
/// was changed, an ECC mode, a licence); how it is `now`, but with all the reasons to throttle of the course;
/// under "during" the course itself. Where NVML no longer finds the GPU, who it is comes from `known`, and
/// "error" says so. Power and energy are the whole card's, so they are null where MIG has cut it.
nlohmann::json gpu_record(const Nvml& nvml, const std::string& pci_address, const GpuIdentity& known,
                          const GpuState& now, const GpuCourse& course, std::optional<std::int64_t> images);

/// Looks at a GPU ten times a second from a thread of its own, beginning with its making.
class GpuSampler {
 public:
  using Read = std::function<GpuState()>;
  explicit GpuSampler(Read read, std::chrono::milliseconds interval = std::chrono::milliseconds(100));
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// The course since the making, or since the last restart().
  GpuCourse course() const;
  /// Forgets what was, for a measurement that begins now: its first sample is taken here, by the caller.
  void restart();
  /// One last sample, by the caller; no more after it. Returns the course.
  GpuCourse stop();

 private:
  void sample();
  void watch();

  const Read read_;
  const std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  GpuCourse course_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace virtrain
