#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace virtrain::results {

/// A VM as `virsh dumpxml` describes it, as far as it decides how fast the VM is. Texts are printable.
struct GuestDomain {
  std::string name;
  std::string type;                    ///< "kvm", "qemu" (emulated)
  std::string machine;                 ///< "pc-q35-8.2"
  std::string cpu_mode;                ///< "host-passthrough", "host-model", "custom"; empty: none said
  std::string cpu_model;               ///< of mode custom
  bool has_host_address_bits = false;  ///< maxphysaddr mode='passthrough', or what implies it
  std::size_t vcpus = 0;
  std::size_t pinned_vcpus = 0;
  std::set<int> cpus;  ///< of the host, that vCPUs are pinned to
  bool has_hugepages = false;
  std::size_t cells = 0;                ///< guest NUMA nodes
  std::size_t expanders = 0;            ///< pcie-expander-bus controllers
  bool has_iommu = false;               ///< emulated, which maps each DMA anew
  std::set<std::string> emulated_nics;  ///< models that are no virtio
  std::vector<std::string> devices;     ///< of the host, by address
};

inline constexpr std::size_t most_domain_bytes = std::size_t{1} << 20;

/// None: the text is no domain's XML.
std::optional<GuestDomain> guest_domain_of(std::string_view xml);

}  // namespace virtrain::results
