#include "workloads/resnet50/cuda/kernels/numeric.h"

namespace virtrain::resnet50::cuda {

int element_bytes(Numeric numeric) {
  return numeric == Numeric::fp32 || numeric == Numeric::tf32 ? 4 : 2;
}

bool is_possible(Numeric numeric, int compute_capability) {
  const bool old_format = numeric == Numeric::fp32 || numeric == Numeric::fp16;
  return old_format || compute_capability >= 80;
}

}  // namespace virtrain::resnet50::cuda
