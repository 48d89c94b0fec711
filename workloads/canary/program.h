#pragma once

#include "workloads/canary/dma_engine.h"

namespace virtrain::canary {

/// main() of virtrain-canary, which also drives the engines that `others` knows.
int run_canary(int argc, char** argv, const EngineMaker& others = {});

}  // namespace virtrain::canary
