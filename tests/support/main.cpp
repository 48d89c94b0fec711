#define CATCH_CONFIG_RUNNER  // Catch2 2 is compiled here; version 3 is a library
#include "tests/support/catch.h"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
