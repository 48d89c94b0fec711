#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {

/// A copy of a host's tree to spoil, and what the doctor knows beside it.
class HostTree {
 public:
  explicit HostTree(const std::string& host);
  ~HostTree();
  HostTree(const HostTree&) = delete;
  HostTree& operator=(const HostTree&) = delete;

  void write(const std::filesystem::path& file, const std::string& text) const;
  void link(const std::filesystem::path& file, const std::string& target) const;
  /// A PCI configuration space with one extended capability: its id, and the words at its offsets 6 and 4.
  void write_config(const std::string& address, unsigned capability, unsigned control,
                    unsigned ability = 0) const;
  /// One with the PCI Express capability: its device control, and its link control 2.
  void write_express_config(const std::string& address, unsigned device_control,
                            unsigned link_control_2 = 0) const;
  /// What `nvidia-smi -q -x` printed: the inside of a GPU's element, by address.
  void write_gpu_reports(const std::map<std::string, std::string>& by_address) const;
  void process(int pid, const std::string& name) const;
  void log(const std::string& line) const { write("var/lib/virtrain/dmesg.txt", line); }

  /// One VM more in the plan, with these devices of the tree.
  void want(const std::vector<DeviceGrant>& grants, std::uint64_t memory_bytes = 0,
            std::optional<int> numa_node = std::nullopt);
  DeviceDemand& plan();

  DeviceHost host() const;
  Finding examine(const std::string& id) const;

  std::filesystem::path root;
  std::vector<std::string> leased;
  std::map<std::string, std::string> quarantined;

 private:
  std::optional<DeviceDemand> demand_;
};

using Change = std::function<void(HostTree&)>;
/// The tree as the script wrote it.
extern const Change as_it_is;
/// One value of one file.
Change writes(const std::filesystem::path& file, const std::string& text);
/// One after the other.
Change both(const Change& first, const Change& second);

/// A tree that passes a check and one that fails it, made from a host of build/hosts, and words of what is
/// found then.
struct Example {
  Change pass;
  Change fail;
  std::string words;
  std::string host = "r750xa";
};
using Examples = std::map<std::string, Example>;  ///< by the check's id

Examples iommu_examples();
Examples version_examples();
Examples driver_examples();
Examples link_examples();
Examples memory_examples();
Examples vgpu_examples();
Examples health_examples();
Examples machine_examples();

/// Of the study's machine: two GPUs, one on each socket, with the group and bridge of the first.
inline constexpr const char* gpu_folder = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0";
inline constexpr const char* gpu_address = "0000:17:00.0";
inline constexpr const char* bridge_address = "0000:16:02.0";
inline constexpr const char* other_gpu_folder = "sys/devices/pci0000:b0/0000:b0:02.0/0000:b1:00.0";
inline constexpr const char* other_address = "0000:b1:00.0";

}  // namespace virtrain::vmctl
