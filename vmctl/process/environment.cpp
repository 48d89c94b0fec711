#include "vmctl/process/environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace virtrain::vmctl {

std::vector<std::string> environment_with(std::vector<std::string> set) {
  const auto given = set.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own = *entry;
    const auto name = own.substr(0, own.find('=') + 1);
    const auto is_it = [&](const std::string& one) { return one.starts_with(name); };
    if (std::none_of(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(given), is_it)) {
      set.emplace_back(own);
    }
  }
  return set;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> raw;
  for (auto& word : words) { raw.push_back(word.data()); }
  raw.push_back(nullptr);
  return raw;
}

}  // namespace virtrain::vmctl
