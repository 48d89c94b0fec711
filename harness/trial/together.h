#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <tuple>
#include <utility>
#include <vector>

namespace virtrain::harness {

namespace asio = boost::asio;

/// Does all of it at once on this loop, so that many nodes take the time of the slowest one. The first one
/// that fails cancels the others; when all have ended, throws what it threw. Cancelled, it cancels them and
/// awaits their ends.
inline asio::awaitable<void> together(std::vector<asio::awaitable<void>> works) {
  if (works.empty()) { co_return; }
  const auto executor = co_await asio::this_coro::executor;
  const auto start = [&executor](asio::awaitable<void> work) {
    return asio::co_spawn(executor, std::move(work), asio::deferred);
  };
  std::vector<decltype(start(std::declval<asio::awaitable<void>>()))> started;
  started.reserve(works.size());
  for (auto& work : works) { started.push_back(start(std::move(work))); }
  auto group = asio::experimental::make_parallel_group(std::move(started));
  const auto ended = co_await group.async_wait(asio::experimental::wait_for_one_error(), asio::use_awaitable);
  const auto& failures = std::get<1>(ended);
  for (const auto index : std::get<0>(ended)) {  // in the order in which they ended
    if (failures[index]) { std::rethrow_exception(failures[index]); }
  }
}

}  // namespace virtrain::harness
