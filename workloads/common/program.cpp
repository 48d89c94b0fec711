#include "workloads/common/program.h"

#include "common/error.h"
#include "common/units.h"
#include "common/version.h"
#include "workloads/common/protocol.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace virtrain {
namespace {

int environment_number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<int>(parse_integer(text).value_or(otherwise));
}

}  // namespace

std::string build_text() {
  return std::string("virtrain ") + kVersion + ", g++ " + __VERSION__ + ", " + VIRTRAIN_BUILD_TYPE;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int environment_rank() {
  return environment_number("OMPI_COMM_WORLD_RANK", 0);
}

LocalRank environment_local_rank() {
  return {environment_number("OMPI_COMM_WORLD_LOCAL_RANK", 0),
          environment_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1)};
}

void report_failure(const std::string& executable, const std::string& operation, const std::string& message) {
  std::fprintf(stderr, "%s: %s: %s\n", executable.c_str(), operation.c_str(), message.c_str());
  constexpr std::size_t longest_text = 1500;  // bytes; with JSON's escapes the record still fits
  write_record(
      "error", environment_rank(),
      {{"operation", operation.substr(0, longest_text / 4)}, {"message", message.substr(0, longest_text)}});
}

int report_current_failure(const std::string& executable, const std::string& operation) {
  try {
    throw;
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    const bool is_refusal = error.code() == ErrorCode::usage || error.code() == ErrorCode::host_unable ||
                            error.code() == ErrorCode::busy;
    return is_refusal ? exit_status(error.code()) : 1;
  } catch (const std::exception& error) {
    report_failure(executable, operation, error.what());
    return 1;
  }
}

}  // namespace virtrain
