#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace virtrain::results {

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
