#include "harness/security/leak_evidence.h"

#include <fmt/format.h>

#include "common/system/time.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_named = 3;

std::string named(const std::vector<std::string>& leaks) {
  if (leaks.size() <= most_named) { return join(leaks, "; "); }
  const std::vector<std::string> first(leaks.begin(), leaks.begin() + most_named);
  return fmt::format("{}; and {} more", join(first, "; "), leaks.size() - most_named);
}

std::string reason_of(const LeakEvidence& evidence) {
  if (!evidence.lacks.empty()) { return evidence.lacks; }
  if (!evidence.failure.empty()) { return evidence.failure; }
  if (evidence.leaks.empty() && evidence.control != true) {
    return "the control was not found, so a leak might not have been found either";
  }
  return evidence.leaks.empty() && evidence.scanned <= 0 ? "nothing was scanned" : evidence.limits;
}

}  // namespace

LeakResult judge(const LeakEvidence& evidence) {
  if (!evidence.leaks.empty()) { return LeakResult::leak; }
  if (!evidence.lacks.empty()) { return LeakResult::not_possible; }
  const bool told = evidence.failure.empty() && evidence.control == true && evidence.scanned > 0;
  return told ? LeakResult::not_found : LeakResult::inconclusive;
}

results::LeakSearch to_record(const LeakEvidence& evidence, const std::string& name,
                              const std::string& tenants) {
  results::LeakSearch record;
  record.name = name;
  record.tenants = tenants;
  record.result = to_string(judge(evidence));
  record.control = evidence.control;
  if (evidence.total > 0) {
    record.scanned = evidence.scanned;
    record.total = evidence.total;
    record.unit = evidence.unit;
  }
  record.found = named(evidence.leaks);
  record.reason = reason_of(evidence);
  record.measured_at = iso8601(wall_ns());
  return record;
}

}  // namespace virtrain::harness
