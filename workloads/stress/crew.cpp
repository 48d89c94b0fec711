#include "workloads/stress/crew.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "common/system/time.h"
#include "workloads/common/processor.h"

namespace virtrain::stress {
namespace {

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

}  // namespace

Crew::Crew(Load& load, double share, std::optional<std::uint64_t> bytes_per_second)
    : load_(load), share_(share) {
  const int count = load.threads();
  if (bytes_per_second) { per_second_each_ = static_cast<double>(*bytes_per_second) / count; }
  working_ = count;
  const std::vector<int> cpus = place_threads(allowed_cpus(), 1, 0, count).cpus;
  try {
    for (int index = 0; index < count; ++index) {
      threads_.emplace_back([this, index] { work_on(index); });
      if (cpus.empty()) { continue; }
      cpu_set_t mask;
      CPU_ZERO(&mask);
      CPU_SET(cpus[static_cast<std::size_t>(index)], &mask);
      pthread_setaffinity_np(threads_.back().native_handle(), sizeof mask, &mask);
    }
  } catch (...) {  // no thread can be made: without an object, nobody else ends those that were
    stop();
    throw;
  }
}

Crew::~Crew() {
  stop();
}

bool Crew::ends_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  woken_.notify_all();
  return ended_.wait_for(lock, time, [this] { return working_ == 0; });
}

void Crew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  for (std::thread& thread : threads_) { thread.join(); }
  threads_.clear();
}

void Crew::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) { std::rethrow_exception(failure_); }
}

void Crew::work_on(int index) {
  try {
    work_until_stopped(index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) { failure_ = std::current_exception(); }
  }
  const std::lock_guard lock(mutex_);
  --working_;
  ended_.notify_all();
}

void Crew::work_until_stopped(int index) {
  const std::unique_ptr<Worker> worker = load_.make_worker(index);
  Pace pace(share_, per_second_each_);
  while (true) {
    const std::int64_t start_ns = monotonic_ns();
    const std::uint64_t done = worker->work();
    work_ += done;
    const double busy_seconds = seconds_since(start_ns);
    busy_ns_ += static_cast<std::int64_t>(busy_seconds * 1e9);
    pace.rested(rest(pace.rest_seconds(busy_seconds, done)));
    const std::lock_guard lock(mutex_);
    if (stopping_) { return; }
  }
}

double Crew::rest(double seconds) {
  if (seconds <= 0) { return 0; }
  const std::int64_t start_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopping_; });
  return seconds_since(start_ns);
}

double Pace::rest_seconds(double busy_seconds, std::uint64_t work) {
  constexpr double longest_catch_up = 1;
  const double due = per_second_ ? static_cast<double>(work) / *per_second_ : busy_seconds / share_;
  ahead_seconds_ = std::max(ahead_seconds_ + due - busy_seconds, -longest_catch_up);
  constexpr double shortest_rest = 1e-3;
  return ahead_seconds_ < shortest_rest ? 0 : ahead_seconds_;
}

void Pace::rested(double seconds) {
  ahead_seconds_ -= seconds;
}

}  // namespace virtrain::stress
