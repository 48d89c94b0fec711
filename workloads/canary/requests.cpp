#include "workloads/canary/requests.h"

namespace virtrain::canary {

std::vector<Canary> canaries_of(const CanaryTexts& texts) {
  std::vector<Canary> canaries;
  for (const auto& [name, text] : texts) {
    canaries.push_back({name, text});
    if (!is_canary_text(text)) {
      throw Error("read the request", ErrorCode::bad_input, "'" + name + "' is not a canary");
    }
  }
  return canaries;
}

Searched message_of(const SearchReport& report) {
  Searched answer{.scanned_bytes = report.scanned_bytes,
                  .total_bytes = report.total_bytes,
                  .findings = report.found.size(),
                  .files = report.files,
                  .unreadable = report.unreadable};
  for (const auto& one : report.found) {
    answer.found.push_back(
        {one.canary, one.path.string().substr(0, most_path_bytes), one.count, one.first, one.last});
  }
  return answer;
}

}  // namespace virtrain::canary
