#include "vmctl/api/finding.h"

namespace virtrain::vmctl {

std::string letter(Severity severity) {
  return {"BIWN"[static_cast<std::size_t>(severity)]};
}

bool blocks(const Finding& finding) {
  return finding.severity == Severity::blocks && finding.status == CheckStatus::failed;
}

}  // namespace virtrain::vmctl
