#pragma once

#include <string>

#include "common/model/check.h"

namespace virtrain::vmctl {

using virtrain::CheckStatus;
using virtrain::Severity;

/// The severity as reports show it: B, I, W or N.
std::string letter(Severity severity);

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
