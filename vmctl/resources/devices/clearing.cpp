#include "vmctl/resources/devices/clearing.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/system/nvme.h"
#include "common/system/subprocess.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/devices/binding.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* nvme_driver = "nvme";
/// 16 TiB at 1 GB/s, of a disk that has no command for it.
constexpr std::chrono::hours erase_deadline{5};

}  // namespace

std::string cannot_be_cleared(BetweenTenants how, GrantKind kind, const PciFunction& function) {
  if (how == BetweenTenants::reset) { return function.reset_methods.empty() ? "it has no reset method" : ""; }
  if (how == BetweenTenants::none) { return ""; }
  if (kind != GrantKind::passthrough || function.class_code != nvme_class) {
    return "only whole NVMe disks can be erased (use between_tenants: reset)";
  }
  if (function.driver == nvme_driver) { return ""; }
  return fmt::format("the host erases it through the driver nvme, and it is on {} (bind it to nvme first)",
                     function.driver.empty() ? "none" : function.driver);
}

void erase_disk(const std::string& address, const Cancelled& cancelled) {
  const auto operation = "erase " + address;
  const auto function = read_pci_function("/", address);
  if (!function) { throw Error(operation, ErrorCode::not_found, "there is no such PCI function"); }
  if (const auto why = cannot_be_cleared(BetweenTenants::erase, GrantKind::passthrough, *function);
      !why.empty()) {
    throw Error(operation, ErrorCode::host_unable, why);
  }
  refuse_users(address);
  const auto disks = nvme_namespaces(pci_folder(address));
  if (disks.empty()) {
    throw Error(operation, ErrorCode::host_unable, "its driver shows no namespace (nvme list shows them)");
  }
  CommandOptions options;
  options.deadline = erase_deadline;
  for (const auto& disk : disks) {
    // Opens the disk for itself alone: the kernel refuses one that is mounted or part of a RAID. In steps,
    // between which it can be ended: the kernel hears no signal within one.
    run_cancellable({"blkdiscard", "--zeroout", "--step", "1GiB", "/dev/" + disk}, options, cancelled,
                    operation);
  }
}

void reset_function(const std::string& address) {
  write_sysfs(pci_folder(address) / "reset", "1");
}

}  // namespace virtrain::vmctl
