#include "common/system/nvme.h"

#include <fmt/format.h>

#include "common/files/reading.h"
#include "common/text/scanner.h"

namespace virtrain {
namespace {

/// A disk that several controllers may reach is used through its head, nvme0n1: a controller has a path to
/// it, nvme0c1n1, and no such node is under /dev.
std::string head_of(const std::string& disk) {
  Scanner in(disk);
  if (!in.take("nvme")) { return disk; }
  const auto subsystem = in.take_while(is_digit);
  if (subsystem.empty() || !in.take("c") || in.take_while(is_digit).empty() || !in.rest().starts_with('n')) {
    return disk;
  }
  return fmt::format("nvme{}{}", subsystem, in.rest());
}

}  // namespace

/// A controller holds nvme/nvme0/nvme0n1.
std::vector<std::string> nvme_namespaces(const std::filesystem::path& function_folder) {
  std::vector<std::string> disks;
  for (const auto& controller : entries_of(function_folder / "nvme")) {
    for (const auto& entry : entries_of(controller)) {
      const auto name = entry.filename().string();
      if (name.starts_with("nvme")) { disks.push_back(head_of(name)); }
    }
  }
  return disks;
}

}  // namespace virtrain
