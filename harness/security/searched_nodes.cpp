#include "harness/security/searched_nodes.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "common/system/log.h"
#include "harness/plan/node_group.h"

namespace virtrain::harness {

using namespace asio::experimental::awaitable_operators;

asio::awaitable<std::exception_ptr> on_searched_nodes(RunContext& context, const Placement& placement,
                                                      const std::string& base,
                                                      std::function<asio::awaitable<void>(LiveNodes&)> work) {
  LiveNodes nodes(context, placement, base);
  std::exception_ptr failure;
  const auto guarded = [&]() -> asio::awaitable<void> {
    try {
      co_await work(nodes);
    } catch (...) { failure = std::current_exception(); }
  };
  co_await (guarded() || context.stop.wait());
  if (context.progress) { context.progress("tear_down"); }
  const auto left = co_await nodes.tear_down();
  if (!left.empty()) { log::warning(something_is_left, {{"left", left}}); }
  co_return context.stop.requested() ? nullptr : failure;
}

asio::awaitable<void> lend_and_boot(RunContext& context, const Placement& placement, LiveNodes& nodes) {
  const auto grants = grants_of(placement, context.experiment);
  const vmctl::CardSettings as_they_are;
  co_await context.hosts.ask(&RunHosts::lend, grants, as_they_are);
  co_await nodes.define();
  co_await nodes.boot();
  co_await nodes.reach_agents();
}

}  // namespace virtrain::harness
