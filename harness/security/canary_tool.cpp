#include "harness/security/canary_tool.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/described_json.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr JsonLimits canary_record_limits{.bytes = std::size_t{16} << 10, .depth = 8, .values = 2000};

Error odd_answer(const std::string& refusal) {
  return {"read what virtrain-canary says", ErrorCode::trial_failed, refusal};
}

Error odd_field(const char* field) {
  return odd_answer(fmt::format("'{}' contradicts other fields", field));
}

/// The line of that record.
nlohmann::json record_of(const std::string& lines, const std::string& kind) {
  for (const auto& line : split(lines, '\n')) {
    auto record = parse_json_or_null(line, canary_record_limits);
    if (text_in(record, "record") == kind) { return record; }
  }
  throw odd_answer("it has no record '" + kind + "'");
}

/// Texts become safe to show, and values that others of their record rule out are refused.
template <typename Value>
void check_value(Value& value) {
  if constexpr (std::is_same_v<Value, std::string>) {
    value = printable(value, canary::most_text_bytes);
  } else if constexpr (is_list<Value>) {
    for (auto& item : value) { check_value(item); }
  } else if constexpr (is_optional<Value>) {
    if (value) { check_value(*value); }
  } else if constexpr (DescribedRecord<Value>) {
    for_each_field<Value>([&](const auto& field) { check_value(value.*field.member); });
    if constexpr (requires { value.contradiction(); }) {
      if (const char* const field = value.contradiction()) { throw odd_field(field); }
    }
  }
}

}  // namespace

template <typename Request>
std::string request_text(const Request& request) {
  return message_json(request).dump();
}

template <typename Request>
typename Request::Answer read_answer(const std::string& lines, const Request& request) {
  typename Request::Answer answer;
  if (const auto refusal = read_record(record_of(lines, answer.record), answer); !refusal.empty()) {
    throw odd_answer(refusal);
  }
  check_value(answer);
  if constexpr (requires { request.misfit(answer); }) {
    if (const char* const field = request.misfit(answer)) { throw odd_field(field); }
  }
  return answer;
}

#define VIRTRAIN_CANARY_MESSAGES(REQUEST)                      \
  template std::string request_text<>(const canary::REQUEST&); \
  template canary::REQUEST::Answer read_answer<>(const std::string& lines, const canary::REQUEST&)
VIRTRAIN_CANARY_MESSAGES(SearchRequest);
VIRTRAIN_CANARY_MESSAGES(MemoryRequest);
VIRTRAIN_CANARY_MESSAGES(PeerRequest);
VIRTRAIN_CANARY_MESSAGES(FunctionsRequest);
VIRTRAIN_CANARY_MESSAGES(FillRequest);
VIRTRAIN_CANARY_MESSAGES(ListenRequest);
VIRTRAIN_CANARY_MESSAGES(ReachRequest);
#undef VIRTRAIN_CANARY_MESSAGES

canary::CanaryTexts texts_of(const std::vector<Canary>& canaries) {
  canary::CanaryTexts texts;
  for (const auto& one : canaries) { texts[one.name] = one.text; }
  return texts;
}

std::string words_of(const canary::Finding& finding) {
  return finding.count <= 1 ? fmt::format("{}, byte {}", finding.path, finding.first)
                            : fmt::format("{}, {} times in bytes {} to {}", finding.path, finding.count,
                                          finding.first, finding.last);
}

LeakEvidence evidence_of(const canary::Searched& search, const std::vector<std::string>& controls) {
  LeakEvidence evidence;
  evidence.unit = "B";
  evidence.scanned = static_cast<double>(search.scanned_bytes);
  evidence.total = static_cast<double>(search.total_bytes);
  evidence.control =
      std::all_of(controls.begin(), controls.end(), [&](const auto& control) { return search.has(control); });
  for (const auto& one : search.found) {
    if (!contains(controls, one.canary)) { evidence.leaks.push_back(one.canary + " in " + words_of(one)); }
  }
  return evidence;
}

}  // namespace virtrain::harness
