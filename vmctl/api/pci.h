#pragma once

#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// NVIDIA's vendor id.
inline constexpr const char* nvidia = "0x10de";

/// Speed ("16.0 GT/s PCIe") and width (lanes) of a PCIe link; empty and 0 where the device has none.
struct PciLink {
  std::string speed;
  int width = 0;
  bool operator==(const PciLink&) const = default;
};
BOOST_DESCRIBE_STRUCT(PciLink, (), (speed, width))

/// A memory region of a device.
struct Bar {
  int index = 0;
  std::uint64_t address = 0;  ///< on the bus, which is the physical one
  std::uint64_t bytes = 0;
  bool is_64bit = false;
  bool is_prefetchable = false;
};
BOOST_DESCRIBE_STRUCT(Bar, (), (index, address, bytes, is_64bit, is_prefetchable))

/// One PCI function as sysfs shows it (Documentation/ABI/testing/sysfs-bus-pci).
struct PciFunction {
  std::string address;               ///< "0000:17:00.0"
  std::string vendor;                ///< "0x10de"
  std::string device;                ///< "0x20f1"
  std::string class_code;            ///< "0x030200"
  std::string driver;                ///< empty: none bound
  std::string driver_override;       ///< empty: none
  int numa_node = -1;                ///< -1: the firmware does not say
  std::vector<std::string> bridges;  ///< from the root port down to the device; empty where unknown
  std::string root_complex;          ///< "pci0000:16"; empty where unknown
  PciLink link;                      ///< as it runs now; an idle GPU slows its link down
  PciLink link_possible;
  std::vector<Bar> bars;
  std::vector<std::string> reset_methods;  ///< "flr", "bus", …
  std::string power_state;                 ///< "D0", "D3hot", "D3cold", …
  std::optional<int> iommu_group;
  std::vector<std::string> iommu_group_members;  ///< addresses, this one included, in order
  std::string physical_function;                 ///< of a virtual function; else empty
  std::vector<std::string> virtual_functions;    ///< of a physical function, in order
  int virtual_functions_possible = 0;            ///< sriov_totalvfs
  int virtual_function_offset = 0;               ///< sriov_offset: where the first one's number is
  int virtual_function_stride = 0;               ///< sriov_stride: from one's number to the next one's
  bool reads_ones = false;                       ///< all of its configuration space that anybody may read
  std::filesystem::path folder;                  ///< its folder in sysfs

  bool is_display() const { return class_code.starts_with("0x03"); }
  /// Or a processing accelerator, of any vendor.
  bool is_accelerator() const { return is_display() || class_code.starts_with("0x12"); }
  /// It fell off the bus: what is read of it is ones only. The kernel still knows the ids of one that was
  /// well when it was found.
  bool is_dead() const { return vendor == "0xffff" || reads_ones; }
  bool has_driver_for_vfio() const;  ///< a device node for VFIO hangs below it (kernel 6.1 and later)
};
BOOST_DESCRIBE_STRUCT(PciFunction, (),
                      (address, vendor, device, class_code, driver, driver_override, numa_node, bridges,
                       root_complex, link, link_possible, bars, reset_methods, power_state, iommu_group,
                       iommu_group_members, physical_function, virtual_functions, virtual_functions_possible,
                       virtual_function_offset, virtual_function_stride, reads_ones, folder))

/// "IOMMU group 14, resets by flr bus": what it takes to pass a function to a VM.
std::string assignment_in_words(const PciFunction& function);

/// "0000:41:00" of "0000:41:00.5": functions of one slot are of one card.
std::string slot_of(const std::string& address);

/// Where a virtual function is or will be, counted from 0: the routing id of the physical one plus offset
/// plus `index` times stride (PCI Express, SR-IOV capability). Nothing where the function has none such.
std::optional<std::string> virtual_function_address(const PciFunction& physical, int index);

/// Every function under root/sys/bus/pci/devices, by address. Files that are not there leave their fields
/// empty.
std::vector<PciFunction> read_pci_functions(const std::filesystem::path& root);
/// One of them; nothing where there is no such function.
std::optional<PciFunction> read_pci_function(const std::filesystem::path& root, const std::string& address);

/// "NVIDIA Corporation GA100 [A100 PCIe 40GB]" from the pci.ids database under root, or else of this host;
/// nothing where there is none or it does not know the device. `vendor` and `device` as "0x10de".
std::optional<std::string> pci_name(const std::filesystem::path& root, const std::string& vendor,
                                    const std::string& device);

/// How long the kernel may take to let us look; a driver that takes a device up holds its lock for seconds.
inline constexpr std::chrono::seconds look_deadline{5};

/// Content, trimmed, of a file of sysfs whose reader waits for the device's lock (driver_override,
/// sriov_numvfs): a driver that does not let go holds it for ever, and who waits for it cannot be ended. So a
/// process of its own reads, and is left behind past the deadline: Error(timeout). Nothing where there is no
/// such file. In a recorded tree it is a plain file.
std::optional<std::string> read_locked_value(const std::filesystem::path& file,
                                             std::chrono::milliseconds deadline = look_deadline);

}  // namespace virtrain::vmctl
