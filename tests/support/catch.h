#pragma once

/// Catch2 2 and 3, whose headers and names of matchers differ: tests include this and take matchers from
/// virtrain::test.
#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

#include <string>

namespace virtrain::test {

/// Of a text; version 3 gives the name to ranges.
inline auto Contains(const std::string& text) {
  return Catch::Matchers::ContainsSubstring(text);
}
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
using Catch::Matchers::UnorderedEquals;

}  // namespace virtrain::test

using Catch::Approx;  // as version 2 has it

#else

#include <catch2/catch.hpp>

namespace virtrain::test {

using Catch::Contains;
using Catch::EndsWith;
using Catch::Equals;
using Catch::Matches;
using Catch::StartsWith;
using Catch::UnorderedEquals;

}  // namespace virtrain::test

#endif
