#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace virtrain {

/// Linux CPU list syntax, "0-3,8" as {0,1,2,3,8}, of CPUs below 65,536, each once; throws Error(bad_input) on
/// other text.
std::vector<int> parse_cpu_list(std::string_view text);
/// {0,1,2,3,8} as "0-3,8".
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace virtrain
