#include "workloads/resnet50/cuda/run/gradient_exchange.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

namespace virtrain::resnet50::cuda {

void wait(const GpuEvent& event, GradientExchange* exchange) {
  if (exchange == nullptr) { return event.wait(); }
  while (!event.is_done()) {
    exchange->check();
    usleep(100);
  }
}

void connect(GradientExchange& exchange, const StepProgram& program) {
  const std::vector<AllReduce> reductions = reductions_of(program);
  std::int64_t most_bytes = 0;
  for (const AllReduce& reduction : reductions) {
    most_bytes = std::max(most_bytes, reduction.count * element_bytes(reduction.numeric));
  }
  if (most_bytes == 0) { return; }
  // An exception from here on does not free it: that would wait for kernels that wait for a lost rank, before
  // the failure is told. The process ends with it.
  std::byte* const scratch = allocate_device(static_cast<std::size_t>(most_bytes)).release();
  const GpuStream stream;
  const GpuEvent done(GpuEvent::Timing::off);
  // Each as the step does it: how NCCL goes about it depends on the size and the type.
  for (const AllReduce& reduction : reductions) {
    exchange.sum(scratch, reduction.count, reduction.numeric, stream.get());
  }
  done.record(stream.get());
  wait(done, &exchange);
  FreeDevice()(scratch);
}

}  // namespace virtrain::resnet50::cuda
