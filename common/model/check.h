#pragma once

#include <optional>
#include <string>

#include "common/enum_text.h"

// How a check of a host, or of a trial, ends.

namespace virtrain {

/// Consequence of a failed check: it cannot run; figures do not count; figures may suffer; worth knowing.
VIRTRAIN_ENUM_CLASS(Severity, blocks, invalidates, warns, notes)

VIRTRAIN_ENUM_CLASS(CheckStatus, ok, failed, skipped)

/// Columns that each table of checks has, whatever it looks at.
struct CheckRow {
  const char* id;  ///< "KVM-1"
  Severity severity;
  const char* holds;         ///< what holds where it passes: "/dev/kvm opens"
  const char* applies_when;  ///< in words
};

/// A row as it is passed on.
struct CheckDescription {
  std::string id;
  Severity severity = Severity::notes;
  std::string holds, applies_when;
  std::string source = {};  ///< who has seen what comes of it: "NVIDIA/nccl#949"; empty: not said
};
inline CheckDescription description_of(const CheckRow& row, const char* source = "") {
  return {row.id, row.severity, row.holds, row.applies_when, source};
}

/// One answer of `virtrain doctor`.
struct Finding {
  std::string id;
  Severity severity = Severity::notes;
  CheckStatus status = CheckStatus::ok;
  std::string found;
  std::string fix;                  ///< what to do; empty if ok
  bool is_for_this_host = true;     ///< false: skipped because the host has nothing that it is about
  std::optional<double> loss = {};  ///< share of what the device could do that it takes, where it is a figure
};

/// Finding for a row that is not judged now; `when` begins the sentence that `applies_when` ends.
inline Finding not_judged(const CheckRow& row, const std::string& when) {
  return {row.id, row.severity, CheckStatus::skipped, when + " " + row.applies_when, "", false};
}

/// Whether what it is about cannot run here.
inline bool blocks(const Finding& finding) {
  return finding.severity == Severity::blocks && finding.status == CheckStatus::failed;
}

/// Result of a leak search. `not_found` means that it found its planted canary in the same session and
/// nothing else; without that the result is `inconclusive`.
VIRTRAIN_ENUM_CLASS(LeakResult, not_found, leak, inconclusive, not_possible)

}  // namespace virtrain
