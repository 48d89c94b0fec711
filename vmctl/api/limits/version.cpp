#include "vmctl/api/limits/version.h"

#include <cstdlib>
#include <utility>

#include "common/text/text.h"

namespace virtrain::vmctl {

bool is_since(const std::string& version, int major, int minor) {
  const auto start = version.find_first_of("0123456789");
  if (start == std::string::npos) { return true; }
  const auto numbers = split(version.substr(start), '.');
  const std::pair found{std::atoi(numbers[0].c_str()),
                        numbers.size() > 1 ? std::atoi(numbers[1].c_str()) : 0};
  return found >= std::pair{major, minor};
}

}  // namespace virtrain::vmctl
