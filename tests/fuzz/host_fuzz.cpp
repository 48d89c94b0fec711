// What a coordinator could send to a host process: a line is the name of a call, a blank, and its arguments
// as JSON. Each is made with values that fit, or refused with Error(protocol) before the host is called; what
// fits is the same when it is written and read again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "tests/support/fake_host.h"
#include "vmctl/api/protocol/messages.h"
#include "vmctl/host/host_server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace virtrain;
  static const std::string folder = "/tmp";
  static test::FakeHost host(folder, "/nonexistent", {});
  static vmctl::HostCalls calls(host);
  for (const auto& line : split(std::string(reinterpret_cast<const char*>(data), size), '\n')) {
    const auto blank = line.find(' ');
    if (blank == std::string::npos || line.starts_with("start ")) { continue; }
    const auto arguments = parse_json_or_null(std::string_view(line).substr(blank + 1), {.depth = 16});
    const auto call = line.substr(0, blank);
    try {
      calls.make(call, arguments);
    } catch (const Error& error) {
      if (printable(error.message()) != error.message()) { std::abort(); }
    } catch (const std::out_of_range&) {
      continue;  // FakeHost has no such node
    }
  }
  return 0;
}
