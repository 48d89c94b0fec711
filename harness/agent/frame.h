#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain::harness {

/// One message between coordinator and agent: a JSON object with a "type", and raw bytes (a process's output,
/// a file).
struct Frame {
  nlohmann::json message = nlohmann::json::object();
  std::string body;
  std::size_t wire_bytes = 0;  ///< as it was received, header included
};

/// Wire format, little endian: magic u32, version u16, zero u16, JSON length u32, body length u32, JSON,
/// body.
inline constexpr std::uint32_t frame_magic = 0x4d525456;  // "VTRM"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t max_json_bytes = 64U << 10;
inline constexpr std::size_t max_body_bytes = 1U << 20;
/// Objects and arrays within each other.
inline constexpr std::size_t max_json_depth = 16;

/// Bytes of the frame. Throws Error(protocol) if a part is over its limit.
std::string encode(const Frame& frame);

/// Turns a byte stream into frames. What it is fed is untrusted: anything but a well-formed frame of our
/// version within the limits throws Error(protocol), and the stream is then of no further use.
class FrameDecoder {
 public:
  void feed(std::string_view bytes);
  /// The next whole frame, nothing while it is incomplete.
  std::optional<Frame> next();

 private:
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

}  // namespace virtrain::harness
