#pragma once

#include <string>

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
  std::string fix;               ///< what to do; empty if ok
  bool is_for_this_host = true;  ///< false: skipped because the host has nothing that it is about
};

/// Whether what it is about cannot run here.
bool blocks(const Finding& finding);

}  // namespace virtrain::vmctl
