#define CATCH_CONFIG_RUNNER  // Catch2 2 is compiled here; version 3 is a library
#include <malloc.h>

#include "tests/support/catch.h"

int main(int argc, char** argv) {
  // Numeric tests take and give back large blocks all the time; from the kernel each would come as new pages.
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return Catch::Session().run(argc, argv);
}
