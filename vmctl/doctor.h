#pragma once

#include <string>
#include <vector>

namespace virtrain::vmctl {

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
  std::string fix;  ///< what to do; empty if ok
};

/// Checks what every scenario needs of this host; starts nothing that stays.
std::vector<Finding> examine_host();
/// Checks what scenarios with GPUs or RDMA adapters need.
std::vector<Finding> examine_devices();

}  // namespace virtrain::vmctl
