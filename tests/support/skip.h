#pragma once

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace virtrain::test {

/// Ends this test as skipped, with its reason (ctest runs each test case in a process of its own).
[[noreturn]] inline void skip(const std::string& reason) {
  constexpr int skipped = 77;
  std::cout << "skipped: " << reason << std::endl;
  std::exit(skipped);
}

inline void need_root() {
  if (::geteuid() != 0) { skip("needs root"); }
}

}  // namespace virtrain::test
