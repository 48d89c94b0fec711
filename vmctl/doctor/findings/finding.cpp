#include "vmctl/doctor/findings/finding.h"

namespace virtrain::vmctl {

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::blocks:
      return "B";
    case Severity::invalidates:
      return "I";
    case Severity::warns:
      return "W";
    case Severity::notes:
      return "N";
  }
  return "?";
}

const char* to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return "ok";
    case CheckStatus::failed:
      return "failed";
    case CheckStatus::skipped:
      return "skipped";
  }
  return "unknown";
}

bool blocks(const Finding& finding) {
  return finding.severity == Severity::blocks && finding.status == CheckStatus::failed;
}

}  // namespace virtrain::vmctl
