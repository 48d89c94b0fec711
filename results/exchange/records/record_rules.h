#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/exchange/records/exchange_columns.h"
#include "results/store/records.h"

namespace virtrain::results {

// Rules of exchange records beyond the types of their columns, once: import refuses a record that breaks a
// rule, and the JSON Schema of a line is made of them.

/// Rule of one key: a number lies between `least` and `most` and is more than `above`, a text is one of
/// `words`.
struct Rule {
  std::string_view key;
  std::optional<double> least = {}, most = {}, above = {};
  std::vector<std::string> words = {};
  bool is_object = false;  ///< of any members
};

/// The bound in messages and in the schema: a whole number as one.
nlohmann::json bound_json(double bound);

/// Rules of one kind of record, or of objects in a tenant's lists.
struct RecordRules {
  std::vector<std::string_view> needed;  ///< keys, those too that say what it belongs to
  std::vector<Rule> rules;
};

/// Rules of a record of the store.
template <typename Record>
const RecordRules& rules_of();

/// Refuses keys that are unknown or missing, and values that break a rule.
void check_record(const ObjectReader& reader, const RecordRules& rules);

/// Takes the record's columns, which are the last keys of its object, and checks it.
template <typename Record>
void take_record(ObjectReader& reader, Record& record) {
  reader.take_columns(record);
  check_record(reader, rules_of<Record>());
}

}  // namespace virtrain::results
