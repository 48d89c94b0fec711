#include "vmctl/api/host_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/scanner.h"

namespace virtrain::vmctl {

bool is_device_name(const std::string& text) {
  constexpr std::size_t most_bytes = 15;  // as the kernel has them
  const auto plain = [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= most_bytes && (is_letter(text[0]) || is_digit(text[0])) &&
         std::ranges::all_of(text, plain);
}

std::string why_no_functions(const std::string& nic, const PciFunction& function) {
  if (!function.physical_function.empty()) {
    return nic + " is a virtual function itself (name its physical function's interface)";
  }
  return function.virtual_functions_possible > 0
             ? ""
             : nic +
                   " has no virtual functions (SR-IOV is off in its firmware, or unknown to it; kind: "
                   "vxlan works over any NIC)";
}

std::string command_for_functions(const std::string& nic, std::int64_t functions, bool has_some) {
  const auto file = fmt::format("/sys/class/net/{}/device/sriov_numvfs", nic);
  // Their number changes only from and to none.
  return fmt::format("{}echo {} > {}", has_some ? fmt::format("echo 0 > {}; ", file) : "", functions, file);
}

}  // namespace virtrain::vmctl
