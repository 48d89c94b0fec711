#include "workloads/resnet50/precision.h"

#include <array>

namespace virtrain::resnet50 {

const char* to_string(Precision precision) {
  static constexpr std::array names{"fp32", "tf32", "bf16", "fp16"};
  return names.at(static_cast<std::size_t>(precision));
}

}  // namespace virtrain::resnet50
