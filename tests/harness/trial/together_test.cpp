#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/trial/offload.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Notes how it ended, and throws the words if there are any.
asio::awaitable<void> work(milliseconds time, std::string words, std::vector<std::string>& ends) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  boost::system::error_code woken;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  ends.push_back(woken ? "cancelled" : words.empty() ? "done" : words);
  if (woken) { throw Error("wait", ErrorCode::interrupted, "stopped"); }
  if (!words.empty()) { throw Error("work", ErrorCode::io, words); }
}

/// Returns what it threw.
std::string run(asio::awaitable<void> all) {
  asio::io_context io;
  std::string failure;
  asio::co_spawn(io, std::move(all), [&](std::exception_ptr error) {
    try {
      if (error) { std::rethrow_exception(error); }
    } catch (const Error& e) { failure = e.what(); }
  });
  io.run();
  return failure;
}

TEST_CASE("what is done together takes the time of the slowest") {
  std::vector<std::string> ends;
  std::vector<asio::awaitable<void>> works;
  works.reserve(20);
  for (int n = 0; n < 20; ++n) { works.push_back(work(100ms, "", ends)); }
  const auto began = steady_clock::now();
  const auto said = run(together(std::move(works)));
  CHECK(said.empty());
  CHECK(steady_clock::now() - began < 1s);
  CHECK(ends == std::vector<std::string>(20, "done"));
  CHECK(run(together({})).empty());
}

TEST_CASE("the first that fails ends the others, and is what is told") {
  std::vector<std::string> ends;
  std::vector<asio::awaitable<void>> works;
  works.push_back(work(1h, "", ends));
  works.push_back(work(50ms, "the second", ends));
  works.push_back(work(1h, "", ends));
  const auto said = run(together(std::move(works)));
  CHECK(said == "work: the second");
  CHECK(ends == std::vector<std::string>{"the second", "cancelled", "cancelled"});
}

TEST_CASE("a stop ends all of it") {
  std::vector<std::string> ends;
  const auto stopped = [&]() -> asio::awaitable<void> {
    std::vector<asio::awaitable<void>> works;
    works.reserve(3);
    for (int n = 0; n < 3; ++n) { works.push_back(work(1h, "", ends)); }
    asio::steady_timer stop(co_await asio::this_coro::executor, 50ms);
    co_await (together(std::move(works)) || stop.async_wait(asio::use_awaitable));
  };
  run(stopped());
  CHECK(ends == std::vector<std::string>(3, "cancelled"));
}

}  // namespace
}  // namespace virtrain::harness
