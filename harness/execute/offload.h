#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>
#include <utility>

namespace virtrain::harness {

namespace asio = boost::asio;

/// Runs a blocking call (libvirt, a subprocess) on the pool and resumes here with its result or exception.
/// The call itself is never cut short, so it must have a deadline of its own.
template <typename Function>
asio::awaitable<std::invoke_result_t<Function>> offload(asio::thread_pool& pool, Function function) {
  auto call = [](Function blocking) -> asio::awaitable<std::invoke_result_t<Function>> {
    co_return blocking();
  };
  co_return co_await asio::co_spawn(pool, call(std::move(function)), asio::use_awaitable);
}

/// Set once, by a signal; everything long waits for it beside its own work.
class StopSource {
 public:
  explicit StopSource(asio::io_context& io) : timer_(io, asio::steady_timer::time_point::max()) {}

  void request(int signal_number) {
    if (signal_number_ == 0) signal_number_ = signal_number;
    timer_.cancel();
  }
  bool requested() const { return signal_number_ != 0; }
  int signal_number() const { return signal_number_; }

  /// Returns when a stop has been requested.
  asio::awaitable<void> wait() {
    boost::system::error_code woken;
    while (!requested()) co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }

 private:
  asio::steady_timer timer_;
  int signal_number_ = 0;
};

}  // namespace virtrain::harness
