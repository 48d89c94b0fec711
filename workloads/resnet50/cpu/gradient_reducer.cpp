#include "workloads/resnet50/cpu/gradient_reducer.h"

#include "common/system/time.h"

namespace virtrain::resnet50::cpu {

void GradientReducer::start(std::size_t count) {
  peers_.start_all_reduce(values_.subspan(started_, count - started_));
  buckets_.push_back({monotonic_ns(), 0});
  started_ = count;
}

void GradientReducer::note_done() {
  const std::int64_t now_ns = monotonic_ns();
  for (; done_ < buckets_.size(); ++done_) { buckets_[done_].end_ns = now_ns; }
}

void GradientReducer::ready(std::size_t count) {
  if (rule_.is_complete(static_cast<std::int64_t>(started_), static_cast<std::int64_t>(count))) {
    start(count);
  }
  if (peers_.progress()) { note_done(); }
}

double GradientReducer::finish() {
  const std::int64_t start_ns = monotonic_ns();
  if (started_ < values_.size()) { start(values_.size()); }
  peers_.wait_all();
  note_done();
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

}  // namespace virtrain::resnet50::cpu
