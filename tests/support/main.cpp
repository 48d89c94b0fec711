#define CATCH_CONFIG_RUNNER  // Catch2 2 is compiled here; version 3 is a library
#include <malloc.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "tests/support/catch.h"

namespace {

/// A container may have given it 64 MiB.
bool has_room(const char* folder) {
  constexpr std::uintmax_t enough = 1 << 30;
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  return !unknown && space.available >= enough;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* in_memory = "/dev/shm";
  if (::getenv("VIRTRAIN_TEST_IN_MEMORY") != nullptr && has_room(in_memory)) {
    ::setenv("TMPDIR", in_memory, 0);
  }
  // Numeric tests take and give back large blocks all the time; from the kernel each would come as new pages.
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return Catch::Session().run(argc, argv);
}
