// The bytes of a channel, headers and all, as an agent or a host process that lies could send them: whole
// frames of our version within the limits, or Error(protocol). How they are cut into reads makes no
// difference.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/frames/frame.h"
#include "common/text/printable.h"

namespace {

using namespace virtrain;

void check(bool holds) {
  if (!holds) { std::abort(); }
}

/// What came of a stream: its frames, encoded anew, and how it was refused.
struct Decoded {
  std::vector<std::string> frames;
  std::string refusal;
  bool operator==(const Decoded&) const = default;
};

Decoded decode(std::string_view bytes, std::size_t at_a_time, const FrameLimits& limits) {
  Decoded decoded;
  FrameDecoder decoder(limits);
  try {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(at_a_time, bytes.size()))) {
      decoder.feed(bytes.substr(0, at_a_time));
      while (const auto frame = decoder.next()) {
        check(frame->stream ? limits.has_streams
                            : frame->message.is_object() && frame->message.at("type").is_string());
        check(frame->body.size() <= max_body_bytes &&
              frame->wire_bytes >= frame_header_bytes + frame->body.size());
        decoded.frames.push_back(encode(*frame, limits));
      }
    }
  } catch (const Error& error) {
    check(error.code() == ErrorCode::protocol);
    check(printable(error.message()) == error.message());
    decoded.refusal = error.what();
  }
  return decoded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Of an agent, and of a host process.
  for (const auto& limits : {FrameLimits(), host_frame_limits}) {
    const auto whole = decode(bytes, size, limits);
    check(decode(bytes, 7, limits) == whole);
    // What was taken for a frame is one: encoded and read again it is the same.
    for (const auto& frame : whole.frames) {
      check(decode(frame, frame.size(), limits) == Decoded{{frame}, ""});
    }
  }
  return 0;
}
