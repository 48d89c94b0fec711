#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

}  // namespace virtrain::results
