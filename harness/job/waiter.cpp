#include "harness/job/waiter.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace virtrain::harness {
namespace asio = boost::asio;
namespace {

constexpr std::chrono::milliseconds time_to_read{200};

}  // namespace

Waiter::Waiter(asio::io_context& io) : io_(io), changed_(io, asio::steady_timer::time_point::max()) {}

asio::awaitable<bool> Waiter::until(std::function<bool()> done, FairDeadline deadline) {
  boost::system::error_code woken;
  while (!done()) {
    const auto left = deadline.left();
    if (left.count() <= 0) {
      // Where this process itself stood still, it has yet to read messages that came in time.
      asio::steady_timer reading(io_, time_to_read);
      co_await reading.async_wait(asio::redirect_error(asio::use_awaitable, woken));
      co_return done();
    }
    changed_.expires_after(left);
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  co_return true;
}

}  // namespace virtrain::harness
