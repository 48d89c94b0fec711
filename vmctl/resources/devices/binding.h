#pragma once

#include <boost/describe/class.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

inline constexpr const char* vfio_driver = "vfio-pci";

/// How a PCI function is bound, as far as lending it changes that.
struct Binding {
  std::string driver;           ///< empty: none
  std::string driver_override;  ///< empty: none
  std::string d3cold_allowed;   ///< "0" or "1"; empty where the kernel does not say
  bool operator==(const Binding&) const = default;
};
BOOST_DESCRIBE_STRUCT(Binding, (), (driver, driver_override, d3cold_allowed))

/// As sysfs shows it now; nothing if there is no such function.
std::optional<Binding> read_binding(const std::string& address);

/// One write, relative to /sys/bus/pci.
struct PciWrite {
  std::string file;
  std::string text;
  bool operator==(const PciWrite&) const = default;
};

/// From what is to a function ready for a VM, bound to vfio-pci. `driver_override` and not `new_id`, which
/// would take every other device of that model too; and no sleep so deep (D3cold) that it may not wake up.
std::vector<PciWrite> steps_to_lend(const std::string& address, const Binding& now);

/// From what is, wherever lending or giving back was cut off, to what was before.
std::vector<PciWrite> steps_to_give_back(const std::string& address, const Binding& now,
                                         const Binding& before);

/// Who uses the function now.
std::vector<DeviceUser> users_of(const std::string& address);

/// Who uses a device. udev looks at a disk for a moment when it has come or somebody has written to it, so
/// its workers alone are waited for.
std::vector<DeviceUser> users_that_stay(const std::function<std::vector<DeviceUser>()>& look,
                                        std::chrono::milliseconds patience);

/// Throws Error(busy) naming who uses the function.
void refuse_users(const std::string& address);

}  // namespace virtrain::vmctl
