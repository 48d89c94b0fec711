#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace virtrain::vmctl {

/// Where a physical function keeps what it decides of one of its virtual functions.
struct FunctionSeat {
  std::filesystem::path folder;  ///< <physical function>/sriov/<n>, of NVIDIA's own driver package
  std::string interface;  ///< of the physical function, for ip(8): the kernel's own driver has no such folder
  int index = 0;
};

/// Where functions are, unless a test has some of its own.
inline constexpr const char* pci_devices = "/sys/bus/pci/devices";

/// Address of the function's physical function; empty: it is no virtual one.
std::string physical_function_of(const std::filesystem::path& devices, const std::string& address);
/// Nothing where the function is no virtual one, or gone.
std::optional<FunctionSeat> find_seat(const std::filesystem::path& devices, const std::string& address);

}  // namespace virtrain::vmctl
