#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace virtrain::results {

/// A PCI function as `lspci -vvv` shows it; absent values were not shown. Texts are printable and bounded.
struct ListedFunction {
  std::string address;  ///< "0000:17:00.0"
  std::string name;     ///< "3D controller: NVIDIA Corporation …"
  std::string driver;   ///< in use; empty: none
  struct Link {
    double gigatransfers = 0;  ///< a second
    int width = 0;
  };
  std::optional<Link> link, link_possible;
  std::optional<bool> redirects, direct_translated;  ///< ACS, of a bridge
  std::optional<bool> ats;                           ///< Address Translation Service is on
  std::optional<bool> relaxed_ordering;
  int payload = 0, payload_possible = 0;  ///< bytes; 0: not shown
  int secondary = -1, subordinate = -1;   ///< buses below a bridge
  std::vector<int> unmapped_regions;      ///< that the firmware or the kernel has found no place for
  bool is_dead = false;                   ///< it answers with ones only

  bool is_gpu() const;
  bool is_adapter() const;  ///< of RDMA
  bool is_virtual_function() const;
  bool is_bridge() const { return secondary >= 0; }
  bool is_emulated() const;  ///< QEMU's own
};

struct PciListing {
  std::vector<ListedFunction> functions;
  bool is_whole = false;   ///< registers were shown: lspci -vv or -vvv, by root
  bool is_denied = false;  ///< "<access denied>": it was not root

  bool is_of_guest() const;
  /// Bridges above the function, as their buses say.
  std::vector<const ListedFunction*> above(const ListedFunction& function) const;
};

/// Reads the functions among the lines of a file.
class PciReader {
 public:
  /// Whether the line belongs to a function.
  bool take(std::string_view line);
  /// None: no function was shown.
  std::optional<PciListing> finish();

 private:
  PciListing listing_;
};

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

/// Holds what `nvidia-smi topo -m` prints: how GPUs and adapters of one machine reach each other. Names are
/// printable.
struct TopoMatrix {
  std::vector<std::string> gpus, adapters;                          ///< "GPU0"; "NIC0", "mlx5_0"
  std::map<std::pair<std::string, std::string>, std::string> ways;  ///< "NV18", "PIX", …, by row and column
  std::map<std::string, std::string> numa;                          ///< of GPUs: "0", "N/A"; absent: not said

  /// Leads from one name to another: "PIX"; empty: not said.
  std::string way(const std::string& from, const std::string& to) const;
};

/// How far a way leads: NVLink 0, PIX 1, PXB 2, PHB 3, NODE 4, SYS 5; none of what is no way.
std::optional<int> distance_of(std::string_view way);
/// "NV18" is of 18 links; 0 of what is none.
int nvlinks_of(std::string_view way);

/// Reads the matrix among the lines of a file.
class TopoReader {
 public:
  /// Whether the line belongs to a matrix.
  bool take(std::string_view line);
  /// None: there was no matrix.
  std::optional<TopoMatrix> finish();

 private:
  TopoMatrix matrix_;
  std::vector<std::string> columns_;
  bool says_numa_ = false;
};

}  // namespace virtrain::results
