#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/error.h"
#include "harness/hosts/run_hosts.h"

namespace virtrain::harness {

namespace asio = boost::asio;

/// Runs a blocking call (libvirt, a subprocess) on the pool and resumes here with its result or exception.
/// The call itself is never cut short, so it must have a deadline of its own; a cancelled coroutine learns of
/// it afterwards.
template <typename Function>
asio::awaitable<std::invoke_result_t<Function>> offload(asio::thread_pool& pool, Function function) {
  using Result = std::invoke_result_t<Function>;
  using Kept = std::conditional_t<std::is_void_v<Result>, bool, std::optional<Result>>;
  Kept kept{};
  // The pool only ever sees these references: this frame stays suspended until the call has ended.
  const auto call = [&] {
    if constexpr (std::is_void_v<Result>) {
      function();
    } else {
      kept = function();
    }
  };
  const auto initiate = [&pool, &call](auto handler) {
    const auto back = asio::get_associated_executor(handler);
    auto work = asio::make_work_guard(back);
    asio::post(pool, [&call, handler = std::move(handler), work = std::move(work)]() mutable {
      std::exception_ptr failure;
      try {
        call();
      } catch (...) { failure = std::current_exception(); }
      asio::post(work.get_executor(),
                 [handler = std::move(handler), failure]() mutable { std::move(handler)(failure); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(initiate,
                                                                                         asio::use_awaitable);
  if constexpr (!std::is_void_v<Result>) { co_return std::move(*kept); }
}

/// Blocking calls that nobody has to wait for: libvirt answers for a VM that stands still only after its
/// deadline, and the end of a trial must not come later for that.
class LooseCalls {
 public:
  LooseCalls(asio::io_context& io, asio::thread_pool& pool) : io_(io), pool_(pool) {}

  /// As offload(), but a cancelled coroutine goes on at once, with Error(interrupted). The call then goes on
  /// alone: `function` owns what it uses, or that stays until ended().
  template <typename Function>
  asio::awaitable<std::invoke_result_t<Function>> run(Function function) {
    struct Call {
      explicit Call(asio::io_context& io) : changed(io, asio::steady_timer::time_point::max()) {}
      asio::steady_timer changed;
      std::optional<std::invoke_result_t<Function>> result;
      std::exception_ptr failure;
      bool has_ended = false;
    };
    const auto call = std::make_shared<Call>(io_);
    ++*running_;
    asio::post(pool_, [call, running = running_, function = std::move(function),
                       work = asio::make_work_guard(io_)]() mutable {
      try {
        call->result = function();
      } catch (...) { call->failure = std::current_exception(); }
      asio::post(work.get_executor(), [call, running] {
        --*running;
        call->has_ended = true;
        call->changed.cancel();
      });
    });
    boost::system::error_code woken;
    co_await call->changed.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (!call->has_ended) { throw Error("wait for the host", ErrorCode::interrupted, "stopped"); }
    if (call->failure) { std::rethrow_exception(call->failure); }
    co_return std::move(*call->result);
  }

  /// Returns when no call is under way any more.
  asio::awaitable<void> ended() {
    constexpr std::chrono::milliseconds period{10};
    for (asio::steady_timer timer(io_); *running_ > 0;) {
      timer.expires_after(period);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }

 private:
  asio::io_context& io_;
  asio::thread_pool& pool_;
  std::shared_ptr<int> running_ = std::make_shared<int>(0);  ///< only the thread of `io` has to do with it
};

/// Set once, by a signal; everything long waits for it beside its own work.
class StopSource {
 public:
  explicit StopSource(asio::io_context& io) : timer_(io, asio::steady_timer::time_point::max()) {}

  void request(int signal_number) {
    if (signal_number_ == 0) { signal_number_ = signal_number; }
    timer_.cancel();
  }
  bool requested() const { return signal_number_ != 0; }
  int signal_number() const { return signal_number_; }

  /// Returns when a stop has been requested.
  asio::awaitable<void> wait() {
    boost::system::error_code woken;
    while (!requested()) { co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken)); }
  }

 private:
  asio::steady_timer timer_;
  int signal_number_ = 0;
};

/// The hosts of a run as the loop of an experiment may use them: calls that wait for a host are made on the
/// pool and awaited here, so that one that stands still holds up nothing else.
class AwaitedHosts {
 public:
  AwaitedHosts(RunHosts& hosts, asio::thread_pool& pool) : hosts_(hosts), pool_(pool) {}

  /// Makes the call, a method of RunHosts with its arguments, and resumes with what it returns or throws.
  template <typename Method, typename... Argument>
  auto ask(Method method, const Argument&... argument) {
    return offload(pool_, call(method, argument...));
  }
  /// The call, to be made on another thread: for LooseCalls.
  template <typename Method, typename... Argument>
  auto call(Method method, const Argument&... argument) {
    return [&hosts = hosts_, method, ... argument = argument] { return (hosts.*method)(argument...); };
  }
  /// A method of vmctl::Host, of a run that has one host.
  template <typename Method, typename... Argument>
  auto ask_only(Method method, const Argument&... argument) {
    return offload(pool_, [&host = hosts_.only(), method, ... argument = argument] {
      return (host.*method)(argument...);
    });
  }

  std::chrono::nanoseconds waiting_time(vmctl::NodeId node) const { return hosts_.waiting_time(node); }

 private:
  RunHosts& hosts_;
  asio::thread_pool& pool_;
};

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
