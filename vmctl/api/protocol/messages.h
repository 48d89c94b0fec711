#pragma once

#include <boost/describe/class.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/system/log.h"
#include "vmctl/api/protocol/wire.h"

// Messages between coordinator and host. Both sides begin with a Hello; then the coordinator calls, and the
// host answers each call once, in any order. Once a second it tells its HostCounters, unasked.

namespace virtrain::vmctl {

struct Hello {
  static constexpr const char* type = "hello";
  std::string version, digest;  ///< of this build, and protocol_digest()
};
BOOST_DESCRIBE_STRUCT(Hello, (), (version, digest))

struct HostCall {
  static constexpr const char* type = "call";
  std::int64_t id = 0;  ///< chosen by the coordinator; 0: nobody waits for the answer
  std::string call;     ///< the method of Host
  nlohmann::json arguments = nlohmann::json::array();
};
BOOST_DESCRIBE_STRUCT(HostCall, (), (id, call, arguments))

struct HostAnswer {
  static constexpr const char* type = "answer";
  std::int64_t id = 0;
  nlohmann::json value = {};
  std::optional<std::uint32_t> stream = {};  ///< that was opened
};
BOOST_DESCRIBE_STRUCT(HostAnswer, (), (id, value, stream))

/// The Error in which a call ended.
struct HostFailure {
  static constexpr const char* type = "failure";
  std::int64_t id = 0;  ///< 0: of the Hello
  ErrorCode code = ErrorCode::protocol;
  std::string operation, message;
};
BOOST_DESCRIBE_STRUCT(HostFailure, (), (id, code, operation, message))

/// A line of the host's log.
struct HostLog {
  static constexpr const char* type = "log";
  log::Level level = log::Level::info;
  std::string message;
  nlohmann::json fields = {};
};
BOOST_DESCRIBE_STRUCT(HostLog, (), (level, message, fields))

template <typename Message>
nlohmann::json to_json(const Message& message) {
  auto said = wire::write(message);
  said["type"] = Message::type;
  return said;
}

/// Throws Error(protocol) where it does not fit.
template <typename Message>
Message message_of(nlohmann::json said) {
  said.erase("type");
  return wire::read<Message>(said, Message::type);
}

}  // namespace virtrain::vmctl
