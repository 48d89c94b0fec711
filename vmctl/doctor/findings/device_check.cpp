#include "vmctl/doctor/findings/device_check.h"

namespace virtrain::vmctl {

Finding examine(const DeviceCheck& check, const DeviceHost& host) {
  if (!check.applies(host)) {
    return {check.id, check.severity, CheckStatus::skipped, std::string("applies when ") + check.applies_when,
            "",       false};
  }
  auto answer = check.look(host);
  const auto status = answer.fix.empty() ? CheckStatus::ok : CheckStatus::failed;
  return {check.id,
          answer.severity.value_or(check.severity),
          status,
          std::move(answer.found),
          std::move(answer.fix),
          true};
}

}  // namespace virtrain::vmctl
