#include "common/frames/frame.h"

#include <fmt/format.h>

#include <utility>

#include "common/error.h"
#include "common/text/json.h"

namespace virtrain {
namespace {

Error protocol_error(std::string message) {
  return Error("read frame", ErrorCode::protocol, std::move(message));
}

template <typename Integer>
void put(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

template <typename Integer>
Integer get(std::string_view bytes, std::size_t at) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Integer>(value | static_cast<Integer>(static_cast<unsigned char>(bytes[at + i]))
                                             << (8 * i));
  }
  return value;
}

}  // namespace

std::string encode(const Frame& frame, const FrameLimits& limits) {
  // Hostile bytes inside strings (a process's name, say) must not make the frame itself unreadable.
  const std::string json =
      frame.stream ? "" : frame.message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (json.size() > limits.json_bytes || frame.body.size() > max_body_bytes) {
    throw Error("write frame", ErrorCode::protocol,
                fmt::format("{} + {} bytes are over the limits {} + {}", json.size(), frame.body.size(),
                            limits.json_bytes, max_body_bytes));
  }
  std::string bytes;
  bytes.reserve(frame_header_bytes + json.size() + frame.body.size());
  put(bytes, frame_magic);
  put(bytes, protocol_version);
  put(bytes, frame.stream ? stream_kind : message_kind);
  put(bytes, frame.stream.value_or(static_cast<std::uint32_t>(json.size())));
  put(bytes, static_cast<std::uint32_t>(frame.body.size()));
  bytes += json;
  bytes += frame.body;
  return bytes;
}

void FrameDecoder::feed(std::string_view bytes) {
  // Here and not at each frame: a peer may put thousands of them into one read.
  buffer_.erase(0, std::exchange(taken_, 0));
  buffer_.append(bytes);
}

std::optional<Frame> FrameDecoder::next() {
  const auto rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < frame_header_bytes) { return std::nullopt; }
  if (get<std::uint32_t>(rest, 0) != frame_magic) {
    throw protocol_error("no frame starts here (wrong magic number)");
  }
  if (const auto version = get<std::uint16_t>(rest, 4); version != protocol_version) {
    throw protocol_error(fmt::format("the peer speaks version {}, this side {}", version, protocol_version));
  }
  const auto kind = get<std::uint16_t>(rest, 6);
  const bool is_of_stream = limits_.has_streams && kind == stream_kind;
  if (!is_of_stream && kind != message_kind) { throw protocol_error("a frame of another kind"); }
  const auto first = get<std::uint32_t>(rest, 8);
  const std::size_t json_bytes = is_of_stream ? 0 : first;
  const std::size_t body_bytes = get<std::uint32_t>(rest, 12);
  if (json_bytes > limits_.json_bytes || body_bytes > max_body_bytes) {
    throw protocol_error(fmt::format("{} + {} bytes are over the limits", json_bytes, body_bytes));
  }
  const std::size_t total = frame_header_bytes + json_bytes + body_bytes;
  if (rest.size() < total) { return std::nullopt; }

  Frame frame;
  if (is_of_stream) {
    frame.stream = first;
  } else {
    // Whoever prints or walks a message recurses no deeper.
    const JsonLimits limits{
        .bytes = limits_.json_bytes, .depth = max_json_depth, .values = limits_.json_values};
    frame.message =
        parse_json(rest.substr(frame_header_bytes, json_bytes), "read frame", ErrorCode::protocol, limits);
    if (!frame.message.is_object()) { throw protocol_error("the message is not a JSON object"); }
    string_field(frame.message, "type");
  }
  frame.body = rest.substr(frame_header_bytes + json_bytes, body_bytes);
  frame.wire_bytes = total;
  taken_ += total;
  return frame;
}

std::string string_field(const nlohmann::json& message, const char* name) {
  const auto found = message.find(name);
  if (found == message.end() || !found->is_string()) {
    throw protocol_error(fmt::format("field '{}' is missing or not text", name));
  }
  return found->get<std::string>();
}

std::int64_t integer_field(const nlohmann::json& message, const char* name) {
  const auto found = message.find(name);
  const bool whole = found != message.end() && found->is_number_integer();
  // Unsigned numbers beyond std::int64_t would turn negative.
  if (!whole || (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX)) {
    throw protocol_error(fmt::format("field '{}' is missing or not a whole number", name));
  }
  return found->get<std::int64_t>();
}

}  // namespace virtrain
