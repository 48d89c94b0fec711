#include "vmctl/host/host_calls.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "vmctl/api/protocol/calls.h"
#include "vmctl/api/protocol/wire.h"

namespace virtrain::vmctl {
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
