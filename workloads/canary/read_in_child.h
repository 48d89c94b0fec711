#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "workloads/canary/dma_engine.h"

namespace virtrain::canary {

/// Calls `read` in a child of this process: a failure that lasts as long as its process, a signal and a hang
/// are the child's alone. This process must have no other thread. Throws Error: the child's; what ended it;
/// after `limit` a timeout that says `hang`. A child that a driver does not let go of is left behind.
PageRead read_in_child(const std::string& operation, std::chrono::milliseconds limit, const std::string& hang,
                       const std::function<PageRead()>& read);

}  // namespace virtrain::canary
