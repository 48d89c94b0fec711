#pragma once

#include <utility>

#include "common/frames/frame.h"

namespace virtrain::harness {

using virtrain::make_frame;

/// A message with further fields as key, value, key, value, …, whether the protocol knows them or not. (Plain
/// arguments: g++ 12 miscompiles initializer lists inside co_await expressions.)
template <typename Value, typename... Rest>
Frame make_frame(const char* type, std::int64_t id, const char* key, Value&& value, Rest&&... rest) {
  Frame frame = make_frame(type, id, std::forward<Rest>(rest)...);
  frame.message[key] = std::forward<Value>(value);
  return frame;
}

}  // namespace virtrain::harness
