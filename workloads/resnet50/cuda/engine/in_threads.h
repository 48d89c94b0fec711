#pragma once

#include <cstddef>
#include <functional>

namespace virtrain::resnet50::cuda {

/// work(index, thread) for each index below `count`, by so many threads at once, this one among them; each
/// thread has one piece of work at a time. When all have ended, throws what the first of them, by index, has
/// thrown; what had not begun by then is left out.
void in_threads(std::size_t count, std::size_t threads,
                const std::function<void(std::size_t index, std::size_t thread)>& work);

}  // namespace virtrain::resnet50::cuda
