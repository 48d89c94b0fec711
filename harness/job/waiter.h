#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>

#include "harness/agent/client/fair_deadline.h"

namespace virtrain::harness {

/// Waits for the state of one job to change. Whoever changes it calls wake().
class Waiter {
 public:
  explicit Waiter(boost::asio::io_context& io);

  void wake() { changed_.cancel(); }
  /// Until `done` returns true or throws; false: the deadline has passed.
  boost::asio::awaitable<bool> until(std::function<bool()> done, FairDeadline deadline);

 private:
  boost::asio::io_context& io_;
  boost::asio::steady_timer changed_;
};

}  // namespace virtrain::harness
