#include "workloads/resnet50/cuda/engine/in_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace virtrain::resnet50::cuda {

void in_threads(std::size_t count, std::size_t threads,
                const std::function<void(std::size_t index, std::size_t thread)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  std::atomic<bool> has_failed = false;
  const auto run = [&](std::size_t thread) {
    for (std::size_t index = next++; index < count && !has_failed; index = next++) {
      try {
        work(index, thread);
      } catch (...) {
        failures[index] = std::current_exception();
        has_failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < std::min(threads, count); ++thread) {
      others.emplace_back(run, thread);
    }
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) { std::rethrow_exception(failure); }
  }
}

}  // namespace virtrain::resnet50::cuda
