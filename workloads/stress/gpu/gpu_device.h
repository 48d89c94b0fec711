#pragma once

#include "workloads/stress/load.h"

namespace virtrain::stress {

/// The GPU that CUDA numbers so. Only in builds with CUDA.
Device gpu_device(int gpu);

}  // namespace virtrain::stress
