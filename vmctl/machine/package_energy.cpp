#include "vmctl/machine/package_energy.h"

#include <algorithm>
#include <optional>

#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> count_in(const fs::path& file) {
  const auto number = parse_integer(read_value(file).value_or(""));
  return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

}  // namespace

PackageEnergy::PackageEnergy(const fs::path& root) {
  for (const auto& zone : entries_of(root / "sys/class/powercap")) {
    // Not twice: zones of a package's parts (core, dram) lie below it, psys is the whole machine's, and
    // client processors show each package once by MSR and once by MMIO.
    const bool by_mmio = zone.filename().string().starts_with("intel-rapl-mmio");
    if (by_mmio || !read_value(zone / "name").value_or("").starts_with("package-")) { continue; }
    const auto wraps_at = count_in(zone / "max_energy_range_uj");
    const auto now = count_in(zone / "energy_uj");
    if (wraps_at && now) { packages_.push_back({zone / "energy_uj", *wraps_at, *now}); }
  }
  if (!packages_.empty()) { readings_.push_back({monotonic_ns(), 0}); }
}

void PackageEnergy::read() {
  if (packages_.empty()) { return; }
  for (auto& package : packages_) {
    const auto now = count_in(package.counter);
    if (!now) {
      packages_.clear();  // what is left would be a part of the whole
      return;
    }
    const auto used = *now >= package.last ? *now - package.last : package.wraps_at - package.last + *now;
    joules_ += static_cast<double>(used) * 1e-6;
    package.last = *now;
  }
  readings_.push_back({monotonic_ns(), joules_});
}

}  // namespace virtrain::vmctl
