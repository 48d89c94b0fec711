#include "harness/trial/offload.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <future>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

namespace {

/// Runs it to its end on this thread; throws what it throws.
void run_here(asio::io_context& io, asio::awaitable<void> work) {
  std::exception_ptr failure;
  asio::co_spawn(io, std::move(work), [&](std::exception_ptr error) { failure = error; });
  io.run();
  if (failure) { std::rethrow_exception(failure); }
}

}  // namespace

TEST_CASE("a loose call gives its result, or throws what it throws") {
  asio::io_context io;
  asio::thread_pool pool(1);
  LooseCalls calls(io, pool);
  const auto work = [&]() -> asio::awaitable<void> {
    const auto seven = [] { return 7; };
    CHECK(co_await calls.run(seven) == 7);
    const auto fail = []() -> int { throw Error("look", ErrorCode::timeout, "no answer"); };
    co_await calls.run(fail);
  };
  CHECK_THROWS_WITH(run_here(io, work()), "look: no answer");
}

TEST_CASE("a cancelled coroutine leaves a loose call behind, which ended() waits for") {
  asio::io_context io;
  asio::thread_pool pool(1);
  LooseCalls calls(io, pool);
  std::promise<void> answer;
  bool left = false, answered = false;
  const auto work = [&]() -> asio::awaitable<void> {
    const auto look = [&]() -> asio::awaitable<void> {
      const auto wait = [&] {
        answer.get_future().wait();
        return answered = true;
      };
      try {
        co_await calls.run(wait);
      } catch (const Error& error) { left = error.code() == ErrorCode::interrupted; }
    };
    asio::steady_timer soon(io, 10ms);
    co_await (look() || soon.async_wait(asio::use_awaitable));
    CHECK(left);
    CHECK_FALSE(answered);
    answer.set_value();
    co_await calls.ended();
    CHECK(answered);
  };
  run_here(io, work());
}
