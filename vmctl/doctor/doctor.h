#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vmctl/machine/inventory.h"
#include "vmctl/process/privileges.h"

namespace virtrain::vmctl {

struct DeviceDemand;

enum class Severity { blocks, invalidates, warns, notes };  ///< B, I, W, N
enum class CheckStatus { ok, failed, skipped };
const char* to_string(Severity severity);
const char* to_string(CheckStatus status);

/// One answer of `virtrain doctor`.
struct Finding {
  std::string id;  ///< "KVM-1"
  Severity severity = Severity::notes;
  CheckStatus status = CheckStatus::ok;
  std::string found;
  std::string fix;               ///< what to do; empty if ok
  bool is_for_this_host = true;  ///< false: skipped because the host has nothing that it is about
};

/// Whether what it is about cannot run here.
bool blocks(const Finding& finding);

/// Checks what every scenario needs of this host in that mode; starts nothing that stays.
std::vector<Finding> examine_host(const Inventory& host, HostMode mode);
/// Checks what scenarios with GPUs or RDMA adapters need, of all GPUs: of this host, or of the recorded one
/// below `root`.
std::vector<Finding> examine_devices(const Inventory& host, const std::filesystem::path& root = "/");
/// Checks what a plan needs, of the devices that it wants: at one time each of these. The first that a check
/// fails for is what it says.
std::vector<Finding> examine_devices(const Inventory& host, const std::vector<DeviceDemand>& demands);
/// Both.
std::vector<Finding> examine_all(const Inventory& host);

}  // namespace virtrain::vmctl
