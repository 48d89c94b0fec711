#include "workloads/resnet50/cpu/gradient_reducer.h"

#include "common/time.h"

namespace virtrain::resnet50::cpu {

void GradientReducer::ready(std::size_t count) {
  if (count - started_ >= bucket_elements_) {
    communicator_.start_sum(values_.subspan(started_, count - started_));
    started_ = count;
  }
  communicator_.progress();
}

double GradientReducer::finish() {
  const std::int64_t start_ns = monotonic_ns();
  if (started_ < values_.size()) communicator_.start_sum(values_.subspan(started_));
  communicator_.wait_all();
  started_ = 0;
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

}  // namespace virtrain::resnet50::cpu
