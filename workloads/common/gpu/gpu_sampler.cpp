#include "workloads/common/gpu/gpu_sampler.h"

#include <algorithm>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/json.h"

namespace virtrain {
namespace {

using nlohmann::json;

/// A slice of a card by MIG draws a part of its power, which nobody measures.
void forget_what_is_of_the_card(json& record) {
  record["power_w"] = record["energy_j"] = nullptr;
  for (const char* name : {"power_w", "energy_j", "energy_from", "images_per_joule"}) {
    record["during"][name] = nullptr;
  }
}

}  // namespace

void GpuCourse::Range::add(std::optional<double> value) {
  if (!value) { return; }
  least = count == 0 ? *value : std::min(least, *value);
  most = count == 0 ? *value : std::max(most, *value);
  sum += *value;
  ++count;
}

json GpuCourse::Range::to_json() const {
  if (count == 0) { return nullptr; }
  return {{"min", least}, {"mean", sum / static_cast<double>(count)}, {"max", most}};
}

void GpuCourse::add(std::int64_t t_ns, const GpuState& state) {
  if (samples_++ == 0) {
    first_ns_ = t_ns;
    first_energy_j_ = state.energy_j;
  }
  last_ns_ = t_ns;
  latest_ = state;
  sm_clock_.add(state.sm_clock_mhz);
  memory_clock_.add(state.memory_clock_mhz);
  temperature_.add(state.temperature_c);
  power_.add(state.power_w);
  if (!state.throttle_reasons) { return; }
  ++throttle_samples_;
  for (const std::string& reason : *state.throttle_reasons) { ++throttled_[reason]; }
}

std::optional<double> GpuCourse::energy_j() const {
  if (samples_ < 2) { return std::nullopt; }
  if (has_counter()) { return *latest_.energy_j - *first_energy_j_; }
  if (power_.count > 0) { return power_.sum / static_cast<double>(power_.count) * seconds(); }
  return std::nullopt;
}

std::optional<std::vector<std::string>> GpuCourse::throttle_reasons() const {
  if (throttle_samples_ == 0) { return std::nullopt; }
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : throttled_) { reasons.push_back(reason); }
  return reasons;
}

json GpuCourse::to_json(std::optional<std::int64_t> images) const {
  const std::optional<double> energy = energy_j();
  std::optional<double> per_joule;
  if (images && energy && *energy > 0) { per_joule = static_cast<double>(*images) / *energy; }
  json throttled = throttle_samples_ == 0 ? json(nullptr) : json::object();
  for (const auto& [reason, count] : throttled_) {
    throttled[reason] = static_cast<double>(count) / static_cast<double>(throttle_samples_);
  }
  return {{"samples", samples_},
          {"seconds", seconds()},
          {"sm_clock_mhz", sm_clock_.to_json()},
          {"memory_clock_mhz", memory_clock_.to_json()},
          {"temperature_c", temperature_.to_json()},
          {"power_w", power_.to_json()},
          {"energy_j", or_null(energy)},
          {"energy_from", energy ? json(has_counter() ? "counter" : "power") : json(nullptr)},
          {"images_per_joule", or_null(per_joule)},
          {"throttled", throttled}};
}

json gpu_record(const Nvml& nvml, const std::string& pci_address, const GpuIdentity& known,
                const GpuState& now, const GpuCourse& course, std::optional<std::int64_t> images) {
  json record = to_json(known);
  record.update(to_json(GpuHealth()));
  record.update(to_json(now));
  try {
    record.update(to_json(nvml.identity(pci_address)));
    record.update(to_json(nvml.health(pci_address)));
  } catch (const Error& error) {  // a whole run's result is not to be lost for that
    record["error"] = error.what();
  }
  if (const auto reasons = course.throttle_reasons()) { record["throttle_reasons"] = *reasons; }
  record["during"] = course.to_json(images);
  if (record["mig_enabled"] == true) { forget_what_is_of_the_card(record); }
  return record;
}

GpuSampler::GpuSampler(Read read, std::chrono::milliseconds interval)
    : read_(std::move(read)), interval_(interval), thread_([this] { watch(); }) {}

GpuSampler::~GpuSampler() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GpuSampler::sample() {
  try {
    const GpuState state = read_();
    const std::lock_guard lock(mutex_);
    if (!ended_) { course_.add(monotonic_ns(), state); }
  } catch (const Error&) {  // a GPU that NVML no longer finds: the training step says what happened to it
  }
}

void GpuSampler::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    lock.unlock();
    sample();
    lock.lock();
    changed_.wait_for(lock, interval_, [this] { return ended_; });
  }
}

GpuCourse GpuSampler::course() const {
  const std::lock_guard lock(mutex_);
  return course_;
}

void GpuSampler::restart() {
  {
    const std::lock_guard lock(mutex_);
    course_ = {};
  }
  sample();
}

GpuCourse GpuSampler::stop() {
  sample();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_one();
  return course_;
}

}  // namespace virtrain
