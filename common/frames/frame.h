#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain {

/// One message between coordinator and agent, or coordinator and host: a JSON object with a "type", and raw
/// bytes (a process's output, a file). Or bytes of a stream, without a message.
struct Frame {
  nlohmann::json message = nlohmann::json::object();
  std::string body = {};
  std::size_t wire_bytes = 0;                ///< as it was received, header included
  std::optional<std::uint32_t> stream = {};  ///< whose bytes `body` has; absent: it is a message
};

/// Wire format, little endian: magic u32, version u16, kind u16, JSON length u32 (of a stream's bytes: the
/// stream), body length u32, JSON, body.
inline constexpr std::uint32_t frame_magic = 0x4d525456;  // "VTRM"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint16_t message_kind = 0, stream_kind = 1;
inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t max_json_bytes = 64U << 10;
inline constexpr std::size_t max_body_bytes = 1U << 20;
/// Objects and arrays within each other.
inline constexpr std::size_t max_json_depth = 16;

/// Bounds of the frames of one connection.
struct FrameLimits {
  std::size_t json_bytes = max_json_bytes;
  std::size_t json_values = 10'000;
  bool has_streams = false;
};

/// Control messages between coordinator and host: an inventory of a large server takes 300 KB.
inline constexpr FrameLimits host_frame_limits{
    .json_bytes = 8U << 20, .json_values = 400'000, .has_streams = true};

/// Bytes of the frame. Throws Error(protocol) if a part is over its limit.
std::string encode(const Frame& frame, const FrameLimits& limits = {});

/// Turns a byte stream into frames. What it is fed is untrusted: anything but a well-formed frame of our
/// version within the limits throws Error(protocol), and the stream is then of no further use.
class FrameDecoder {
 public:
  explicit FrameDecoder(const FrameLimits& limits = {}) : limits_(limits) {}
  void feed(std::string_view bytes);
  /// The next whole frame, nothing while it is incomplete.
  std::optional<Frame> next();

 private:
  FrameLimits limits_;
  std::string buffer_;
  std::size_t taken_ = 0;  ///< of buffer_, by frames that have been handed out
};

/// A message of this type about request, process or shell `id`; messages.h has those with further fields.
inline Frame make_frame(const char* type, std::int64_t id) {
  return {{{"type", type}, {"id", id}}, {}};
}

/// Checked access to an untrusted message; throws Error(protocol) naming the field.
std::string string_field(const nlohmann::json& message, const char* name);
std::int64_t integer_field(const nlohmann::json& message, const char* name);

}  // namespace virtrain
