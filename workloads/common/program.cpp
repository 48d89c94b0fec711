#include "workloads/common/program.h"

#include "common/version.h"
#include "workloads/common/protocol.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace virtrain {

std::string build_text() {
  return std::string("virtrain ") + kVersion + ", g++ " + __VERSION__ + ", " + VIRTRAIN_BUILD_TYPE;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int environment_rank() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

void report_failure(const std::string& executable, const std::string& operation, const std::string& message) {
  std::fprintf(stderr, "%s: %s: %s\n", executable.c_str(), operation.c_str(), message.c_str());
  constexpr std::size_t longest_text = 1500;  // bytes; with JSON's escapes the record still fits
  write_record(
      "error", environment_rank(),
      {{"operation", operation.substr(0, longest_text / 4)}, {"message", message.substr(0, longest_text)}});
}

int usage_or_failure(const Error& error) {
  return error.code() == ErrorCode::usage ? 2 : 1;
}

}  // namespace virtrain
