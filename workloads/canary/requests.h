#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/file_search.h"
#include "common/model/canary_messages.h"
#include "common/text/canary.h"
#include "common/text/described_json.h"
#include "common/text/json.h"

// virtrain-canary takes one request on standard input and answers it with one record.

namespace virtrain::canary {

/// Bytes that an answer keeps of a path, a name or a reason: many of them have to fit into a record.
inline constexpr std::size_t most_path_bytes = 160;

/// Throws Error(bad_input) where one of them is no canary.
std::vector<Canary> canaries_of(const CanaryTexts& texts);

/// Throws Error(bad_input) for what is no such request.
template <typename Request>
Request read_request(const std::string& text) {
  const auto operation = std::string("read the request to ") + Request::verb;
  const auto json = parse_json(text, operation, ErrorCode::bad_input);
  Request request;
  auto refusal = read_record(json, request);
  if constexpr (requires { request.contradiction(); }) {
    const char* const field = refusal.empty() ? request.contradiction() : nullptr;
    if (field != nullptr) { refusal = std::string("'") + field + "' is odd"; }
  }
  if (!refusal.empty()) { throw Error(operation, ErrorCode::bad_input, refusal); }
  if constexpr (requires { request.canaries; }) { canaries_of(request.canaries); }
  return request;
}

/// The record without what its lists have beyond their bounds.
template <DescribedRecord Record>
Record shortened(Record record) {
  for_each_field<Record>([&](const auto& field) {
    auto& value = record.*field.member;
    if constexpr (is_list<std::remove_cvref_t<decltype(value)>>) {
      if (value.size() > field.is.most_items) { value.resize(field.is.most_items); }
      if constexpr (DescribedRecord<typename std::remove_cvref_t<decltype(value)>::value_type>) {
        for (auto& item : value) { item = shortened(std::move(item)); }
      }
    }
  });
  return record;
}

/// The fields of its record, which has a limit.
template <typename Answer>
nlohmann::json answer_json(Answer answer) {
  return message_json(shortened(std::move(answer)));
}

Searched message_of(const SearchReport& report);

}  // namespace virtrain::canary
