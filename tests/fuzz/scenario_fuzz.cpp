// A scenario file: decoded, or refused with an Error that is safe to show.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/error.h"
#include "common/text/printable.h"
#include "harness/scenario/decode/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace virtrain;
  try {
    harness::decode_scenario(std::string(reinterpret_cast<const char*>(data), size), "x.yaml");
  } catch (const Error& error) {
    const bool is_right = error.code() == ErrorCode::bad_input && error.message().starts_with("x.yaml:");
    if (!is_right || printable(error.message()) != error.message()) { std::abort(); }
  }
  return 0;
}
