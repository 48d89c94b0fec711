#include "workloads/stress/load.h"

#include "workloads/common/affinity.h"

namespace virtrain::stress {

Device Load::device() {
  return {cpu_model()};
}

}  // namespace virtrain::stress
