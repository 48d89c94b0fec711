#include "vmctl/host/host_server.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/version.h"
#include "vmctl/api/protocol/calls.h"
#include "vmctl/api/protocol/wire.h"

namespace virtrain::vmctl {
namespace {

namespace asio = boost::asio;
using nlohmann::json;

/// Calls that block at one time: a coordinator makes at most a handful.
constexpr std::size_t most_calls = 16;
constexpr std::chrono::seconds look_period{1};
/// How long a coordinator may take to tear down after SIGTERM.
constexpr std::chrono::seconds coordinator_ends{12};

json failure(std::int64_t id, const Error& error) {
  return to_json(HostFailure{id, error.code(), error.operation(), error.message()});
}

}  // namespace

HostServer::HostServer(Host& host, UniqueFd in, UniqueFd out, LinkTimes times)
    : host_(host),
      calls_(host),
      pool_(most_calls),
      link_(io_, std::move(in), std::move(out),
            {.message = [this](const json& message) { take(message); },
             .end =
                 [this](const std::string& why) {
                   ended_ = why;
                   io_.stop();
                 }},
            times) {}

std::string HostServer::serve() {
  link_.send(to_json(Hello{virtrain_version, protocol_digest()}));
  link_.start();
  io_.run();
  host_.cancel();
  pool_.join();
  return ended_;
}

/// They are handled, for what is ignored stays ignored in programs that are started.
void HostServer::heed_signals() {
  ends_.add(SIGTERM);
  ends_.async_wait([this](const auto& failed, int) {
    if (failed) { return; }
    // Who stops a service, a container or a job signals both sides at once, and the coordinator ends in
    // order.
    coordinators_end_.expires_after(coordinator_ends);
    coordinators_end_.async_wait([this](const auto& cancelled) {
      if (!cancelled) { link_.end("SIGTERM"); }
    });
  });
  for (const int signal : {SIGINT, SIGHUP}) { ignored_.add(signal); }
}

void HostServer::stop(const std::string& why) {
  asio::post(io_, [this, why] { link_.end(why); });
}

void HostServer::log(log::Level level, std::string_view message, const json& fields) {
  link_.send(to_json(HostLog{level, std::string(message), fields}));
}

void HostServer::take(const json& message) {
  const auto type = string_field(message, "type");
  if (type == Hello::type) { return greet(message_of<Hello>(message)); }
  if (type != HostCall::type || !is_greeted_) {
    throw Error("read a message of the host protocol", ErrorCode::protocol,
                fmt::format("'{}' is not expected now", excerpt(type, 64)));
  }
  auto call = message_of<HostCall>(message);
  if (call.call == call_name<&Host::cancel>) { return answer(call); }  // never behind others
  asio::post(pool_, [this, call = std::move(call)] { answer(call); });
}

void HostServer::greet(const Hello& hello) {
  try {
    require_same_build("virtrain", hello.version, hello.digest);
    if (!std::exchange(is_greeted_, true)) { look(); }
  } catch (const Error& error) { link_.send(failure(0, error)); }
}

/// On a thread that may wait: a device that does not answer delays whoever reads its files.
void HostServer::look() {
  asio::post(pool_, [this] {
    try {
      link_.send(to_json(host_.look()));
    } catch (const std::exception& error) {
      return log::warning("this host cannot see its nodes", {{"reason", error.what()}});
    }
    asio::post(io_, [this] {
      next_look_.expires_after(look_period);
      next_look_.async_wait([this](const auto& cancelled) {
        if (!cancelled) { look(); }
      });
    });
  });
}

void HostServer::answer(const HostCall& call) {
  try {
    auto made = calls_.make(call.call, call.arguments);
    note(call, made.value);
    HostAnswer told{call.id, std::move(made.value), {}};
    if (!made.stream) { return link_.send(to_json(told)); }
    told.stream = static_cast<std::uint32_t>(call.arguments[0].get<NodeId>());
    link_.open(*told.stream, std::move(made.stream), to_json(told));
  } catch (const Error& error) { link_.send(failure(call.id, error)); } catch (const std::exception& error) {
    link_.send(failure(call.id, Error("call " + call.call, ErrorCode::io, error.what())));
  }
}

// --- what a coordinator that goes leaves to be undone

void HostServer::note(const HostCall& call, const json& value) {
  const std::lock_guard lock(mutex_);
  if (call.call == call_name<&Host::begin>) { began_ = true; }
  if (call.call == call_name<&Host::plan_nodes>) { groups_.insert(value["id"].get<NodeGroupId>()); }
  if (call.call == call_name<&Host::remove>) { groups_.erase(call.arguments[0].get<NodeGroupId>()); }
  if (call.call == call_name<&Host::end>) { began_ = false; }
}

void HostServer::undo() {
  if (!began_) { return; }
  const auto attempt = [](const auto& work) {
    std::vector<std::string> reasons;
    try {
      reasons = work();
    } catch (const std::exception& error) { reasons = {error.what()}; }
    for (const auto& reason : reasons) {
      log::error("not undone after the coordinator had gone; run: virtrain clean", {{"reason", reason}});
    }
  };
  using Reasons = std::vector<std::string>;
  for (const auto group : groups_) {
    attempt([&] { return host_.remove(group).left; });
  }
  attempt([&] { return host_.remove_planted(), Reasons(); });
  attempt([&] { return host_.end_lending(); });
  // The experiment still reads "running": `clean` marks it, by the journal.
  attempt([&] { return host_.end(false), Reasons(); });
}

namespace {

using nlohmann::json;

template <typename... Argument>
std::tuple<Argument...> read_arguments(const json& said, const std::string& call,
                                       std::type_identity<std::tuple<Argument...>>) {
  if (!said.is_array() || said.size() != sizeof...(Argument)) {
    wire::refuse(call, fmt::format("called with {} arguments", sizeof...(Argument)));
  }
  [[maybe_unused]] std::size_t at = 0;
  [[maybe_unused]] const auto next = [&] {  // of calls without arguments
    const auto place = fmt::format("{}[{}]", call, at);
    return std::pair<const json&, std::string>(said[at++], place);
  };
  // Braces: arguments are read from left to right.
  return std::tuple<Argument...>{[&] {
    const auto [value, place] = next();
    return wire::read<Argument>(value, place);
  }()...};
}

template <auto method>
CallResult call_host(Host& host, const json& said) {
  using Call = CallOf<decltype(method)>;
  using Result = typename Call::Result;
  const auto arguments =
      read_arguments(said, call_name<method>, std::type_identity<typename Call::Arguments>());
  return std::apply(
      [&](const auto&... argument) -> CallResult {
        if constexpr (std::is_void_v<Result>) {
          (host.*method)(argument...);
          return {};
        } else if constexpr (std::is_same_v<Result, NodeStream>) {
          auto started = (host.*method)(argument...);
          auto fd = std::move(started.agent);
          return {wire::write(started), std::move(fd)};
        } else {
          return {wire::write((host.*method)(argument...)), {}};
        }
      },
      arguments);
}

struct Row {
  CallResult (*make)(Host&, const json&);
  CallOrder order;
};

const std::map<std::string, Row, std::less<>>& calls() {
  static const std::map<std::string, Row, std::less<>> all{
#define VIRTRAIN_CALL_ROW(CALL, ORDER) {#CALL, {&call_host<&Host::CALL>, CallOrder::ORDER}},
      VIRTRAIN_HOST_CALLS(VIRTRAIN_CALL_ROW)
#undef VIRTRAIN_CALL_ROW
  };
  return all;
}

}  // namespace

CallResult HostCalls::make(const std::string& call, const json& arguments) {
  const auto found = calls().find(call);
  if (found == calls().end()) {
    throw Error("answer the coordinator", ErrorCode::protocol,
                fmt::format("no call is named '{}'", excerpt(call, 64)));
  }
  const auto& row = found->second;
  std::unique_lock<std::mutex> turn;
  if (row.order != CallOrder::none) {
    turn = std::unique_lock(turns_.at(static_cast<std::size_t>(row.order)));
  }
  return row.make(host_, arguments);
}

}  // namespace virtrain::vmctl
