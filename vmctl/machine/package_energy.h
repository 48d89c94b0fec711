#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "vmctl/api/evidence.h"

namespace virtrain::vmctl {

/// The energy of a host's processor packages by RAPL, as Linux shows it below sys/class/powercap: since the
/// meter was made, all packages together. Their memory is not in it.
class PackageEnergy {
 public:
  explicit PackageEnergy(const std::filesystem::path& root = "/");
  /// Adds a reading; to be called more often than a counter wraps (a minute or more). Nothing where no
  /// package can be read.
  void read();
  const std::vector<EnergyReading>& readings() const { return readings_; }

 private:
  struct Package {
    std::filesystem::path counter;
    std::uint64_t wraps_at = 0;  ///< its largest value, in microjoules
    std::uint64_t last = 0;
  };

  std::vector<Package> packages_;
  double joules_ = 0;
  std::vector<EnergyReading> readings_;
};

}  // namespace virtrain::vmctl
