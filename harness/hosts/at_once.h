#pragma once

#include <functional>
#include <future>
#include <iterator>
#include <type_traits>
#include <vector>

namespace virtrain::harness {

/// Does the work for each item at once, on threads of their own; returns what it returns, in their order.
/// When all have ended, throws what the first of them threw.
template <typename Items, typename Work>
auto at_once(Items& items, Work&& work) {
  using Result = std::invoke_result_t<Work&, decltype(*std::begin(items))>;
  std::vector<std::future<Result>> running;
  running.reserve(std::size(items));
  const bool alone = std::size(items) == 1;  // which needs no thread
  for (auto& item : items) {
    running.push_back(std::async(alone ? std::launch::deferred : std::launch::async,
                                 [&work, &item] { return work(item); }));
  }
  for (auto& one : running) { one.wait(); }
  if constexpr (std::is_void_v<Result>) {
    for (auto& one : running) { one.get(); }
  } else {
    std::vector<Result> results;
    results.reserve(running.size());
    for (auto& one : running) { results.push_back(one.get()); }
    return results;
  }
}

}  // namespace virtrain::harness
