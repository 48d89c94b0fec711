#include "vmctl/api/device.h"

#include <fmt/format.h>

#include "common/text/text.h"

namespace virtrain::vmctl {

bool is_in_another_namespace(const HostDevice& device) {
  const auto& pci = device.function;
  // mlx5_vfio_pci and its like belong to VMs, too.
  const bool has_host_driver = !pci.driver.empty() && pci.driver.find("vfio") == std::string::npos;
  return pci.class_code.starts_with("0x0200") && has_host_driver && device.interfaces.empty();
}

std::string in_words(const DeviceUser& user) {
  if (user.pid > 0) { return fmt::format("{} (pid {}) has {} open", user.process, user.pid, user.path); }
  if (user.process == "route") { return user.path + " has a route"; }
  return fmt::format("{} is {}", user.path, user.process == "swap" ? "swap space" : user.process);
}

std::string kernel_address(const std::string& nvidia_address) {
  const auto domain = nvidia_address.find(':');
  return lower(domain != std::string::npos && domain > 4 ? nvidia_address.substr(domain - 4)
                                                         : nvidia_address);
}

}  // namespace virtrain::vmctl
