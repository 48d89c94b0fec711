#include "results/comparison/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "common/error.h"
#include "common/model/trial_key.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

constexpr const char* allowed =
    "allowed: an arm such as vm, or terms separated by commas: label:before, experiment:ID, host:NAME, "
    "scenario:NAME, date:2026-11-01..2026-11-10, arm:vm";

Error refuse(const std::string& text, const std::string& why) {
  return Error("read the side " + text, ErrorCode::usage, fmt::format("{} ({})", why, allowed));
}

/// As much of "2026-11-01T08:30:00Z" from its beginning as is given; empty is any time.
bool is_moment(std::string_view text) {
  Scanner in(text);
  if (in.at_end()) { return true; }
  bool goes_on = in.take_digits(4);
  for (const char* separator : {"-", "-", "T", ":", ":"}) {
    if (!goes_on || !in.take(separator)) { break; }
    goes_on = in.take_digits(2);
  }
  in.take("Z");
  return goes_on && in.at_end() && is_on_calendar(text);
}

/// "A..B", "A..", "..B" or "A": a date, or a time in UTC to any precision.
Selector::Span parse_span(const std::string& text, const std::string& value) {
  const auto dots = value.find("..");
  Selector::Span span{value, value};
  if (dots != std::string::npos) { span = {value.substr(0, dots), value.substr(dots + 2)}; }
  for (auto* end : {&span.from, &span.to}) {
    if (!is_moment(*end)) { throw refuse(text, *end + " is not a date"); }
    if (end->ends_with('Z')) { end->pop_back(); }
  }
  if (span.from.empty() && span.to.empty()) { throw refuse(text, "a date is missing"); }
  if (!span.from.empty() && !span.to.empty() && span.to < span.from.substr(0, span.to.size())) {
    throw refuse(text, fmt::format("{} is before {}", span.to, span.from));
  }
  return span;
}

void add_term(const std::string& text, const std::string& term, Selector& selector) {
  const auto colon = term.find(':');
  const std::string kind = colon == std::string::npos ? "arm" : term.substr(0, colon);
  const std::string value = colon == std::string::npos ? term : term.substr(colon + 1);
  if (value.empty()) { throw refuse(text, kind + " without a value"); }
  if (kind == "arm") {
    if (!selector.arm.empty()) { throw refuse(text, "two arms on one side"); }
    selector.arm = value;
  } else if (kind == "label") {
    selector.labels.push_back(value);
  } else if (kind == "experiment") {
    selector.experiments.push_back(value);
  } else if (kind == "host") {
    selector.hosts.push_back(value);
  } else if (kind == "scenario") {
    selector.scenarios.push_back(value);
  } else if (kind == "date") {
    selector.dates.push_back(parse_span(text, value));
  } else {
    throw refuse(text, "there is no term " + kind);
  }
}

bool among(const std::string& value, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
}

/// ISO 8601 sorts as text; an end without a time holds for its whole day (or month, hour, …).
bool within(const std::string& time, const Selector::Span& span) {
  return time >= span.from && (span.to.empty() || time.substr(0, span.to.size()) <= span.to);
}

bool is_from(const Selector& selector, const ComparisonExperiment& experiment) {
  return among(experiment.label, selector.labels) && among(experiment.id, selector.experiments) &&
         among(experiment.host_name, selector.hosts) && among(experiment.scenario, selector.scenarios);
}

}  // namespace

bool Selector::beyond_arms() const {
  return !(labels.empty() && experiments.empty() && hosts.empty() && scenarios.empty() && dates.empty());
}

Selector parse_selector(const std::string& text) {
  Selector selector;
  selector.text = text;
  for (const auto& term : split(text, ',')) { add_term(text, std::string(trim(term)), selector); }
  return selector;
}

Selector selector_of(const std::string& side) {
  return side.empty() ? Selector() : parse_selector(side);
}

const std::string& start_of(const ComparisonExperiment& experiment, const ComparisonRow& row) {
  return row.started_at.empty() ? experiment.started_at : row.started_at;
}

bool selects(const Selector& selector, const ComparisonExperiment& experiment,
             const std::set<std::string>& starts) {
  const auto& dates = selector.dates;
  return is_from(selector, experiment) &&
         (dates.empty() || std::ranges::any_of(dates, [&](const Selector::Span& span) {
            const auto first = starts.lower_bound(span.from);
            return first != starts.end() && within(*first, span);
          }));
}

bool selects(const Selector& selector, const ComparisonExperiment& experiment, const ComparisonRow& row) {
  const auto& dates = selector.dates;
  const auto& start = start_of(experiment, row);
  return (selector.arm.empty() || row.arm == selector.arm) && is_from(selector, experiment) &&
         (dates.empty() || (!start.empty() && std::ranges::any_of(dates, [&](const auto& span) {
            return within(start, span);
          })));
}

namespace {

/// Plans may be imported: what is not as ours is as good as absent.
ArmRecord record_of(const nlohmann::json& arm) {
  ArmRecord record{text_in(arm, "name"), text_in(arm, "base"), text_in(arm, "like"), {}, {}, 0};
  if (const auto changes = arm.find("changes"); changes != arm.end() && changes->is_object()) {
    for (const auto& [key, value] : changes->items()) {
      if (value.is_string()) { record.changes[key] = value.get<std::string>(); }
    }
  }
  if (const auto price = arm.find("price"); price != arm.end() && price->is_object()) {
    const auto amount = price->find("amount");
    const auto currency = text_in(*price, "currency");
    const bool is_code =
        currency.size() == 3 && std::ranges::all_of(currency, [](char c) { return c >= 'A' && c <= 'Z'; });
    constexpr double least = 1e-6, most = 1e12;
    if (is_code && amount != price->end() && amount->is_number() && amount->get<double>() >= least &&
        amount->get<double>() <= most) {
      record.price = {amount->get<double>(), currency};
    }
  }
  return record;
}

const ArmRecord* known_arm(const ArmRecords& records, const std::string& name) {
  const auto found = records.find(name);
  return found == records.end() ? nullptr : &found->second;
}

bool has_run(const std::vector<std::string>& ran, const std::string& name) {
  return std::ranges::find(ran, name) != ran.end();
}

/// The first arm that ran on the way from a variant to its base; else bare metal; empty: there is none.
std::string counterpart(const std::string& variant, const std::vector<std::string>& ran,
                        const ArmRecords& records) {
  auto nearest = nearest_like(records, variant, [&](const std::string& name) { return has_run(ran, name); });
  if (!nearest.empty()) { return nearest; }
  return has_run(ran, arm_bare_metal) ? arm_bare_metal : "";
}

/// Leaves out entries that are not as ours.
std::vector<ArmRecord> read_arm_records(const nlohmann::json& arms) {
  std::vector<ArmRecord> records;
  if (!arms.is_array()) { return records; }
  for (const auto& arm : arms) {
    if (!arm.is_object()) { continue; }
    records.push_back(record_of(arm));
    records.back().position = records.size();
  }
  return records;
}

}  // namespace

std::vector<std::string> variant_sentences(const nlohmann::json& plan, const std::set<std::string>& but) {
  std::vector<std::string> sentences;
  const auto arms = plan.is_object() ? plan.find("arms") : plan.end();
  if (!plan.is_object() || arms == plan.end()) { return sentences; }
  for (const auto& record : read_arm_records(*arms)) {
    if (record.like.empty() || but.contains(record.name)) { continue; }
    std::vector<std::string> changes;
    for (const auto& [key, value] : record.changes) { changes.emplace_back(key).append(" ").append(value); }
    sentences.push_back(printable("Arm " + record.name + " is " + record.base +
                                  (changes.empty() ? ", unchanged." : " with " + join(changes, ", ") + ".")));
  }
  return sentences;
}

namespace {

/// Keeps only the facts of an arm in which two experiments agree: a change of one of them alone explains
/// nothing, and trials at two prices have no one price.
void agree(ArmRecord& record, const ArmRecord& earlier) {
  std::erase_if(record.changes, [&](const auto& change) {
    const auto same = earlier.changes.find(change.first);
    return same == earlier.changes.end() || same->second != change.second;
  });
  const auto& [ours, theirs] = std::tie(record.price, earlier.price);
  if (!ours || !theirs || ours->amount != theirs->amount || ours->currency != theirs->currency) {
    record.price.reset();
  }
}

}  // namespace

ArmRecords arm_records(const ComparisonData& data) {
  ArmRecords records;
  for (const auto& experiment : data.experiments) {
    for (auto& record : read_arm_records(parse_json_or_null(experiment.arms))) {
      auto name = record.name;
      if (const auto known = records.find(name); known != records.end()) { agree(record, known->second); }
      records.insert_or_assign(std::move(name), std::move(record));
    }
  }
  return records;
}

std::string nearest_like(const ArmRecords& records, std::string name,
                         const std::function<bool(const std::string&)>& holds) {
  // An imported plan may have arms that are like each other.
  for (std::size_t hops = 0; hops < records.size(); ++hops) {
    const auto* record = known_arm(records, name);
    if (record == nullptr || record->like.empty()) { break; }
    name = record->like;
    if (holds(name)) { return name; }
  }
  return {};
}

std::vector<ArmPair> default_pairs(const std::vector<std::string>& ran, const ArmRecords& records) {
  std::vector<ArmPair> pairs;
  const bool shared = has_run(ran, arm_bare_metal_shared);
  // Where one of the two did not run, bare metal without namespaces stands for it.
  const std::string baseline =
      has_run(ran, arm_bare_metal) || !shared ? arm_bare_metal : arm_bare_metal_shared;
  const std::string candidate = has_run(ran, arm_vm) || !shared ? arm_vm : arm_bare_metal_shared;
  const bool both = has_run(ran, baseline) && has_run(ran, candidate) && baseline != candidate;
  if (both) { pairs.emplace_back(baseline, candidate); }
  const std::string here = has_run(ran, baseline) ? baseline : has_run(ran, candidate) ? candidate : "";
  for (const auto& name : ran) {
    if (here.empty() || !is_attached(records, name) || !known_arm(records, name)->like.empty()) { continue; }
    pairs.emplace_back(here, name);
  }
  for (const auto& name : ran) {
    const auto* record = known_arm(records, name);
    if (record == nullptr || record->like.empty()) { continue; }
    const auto other = counterpart(name, ran, records);
    if (!other.empty()) { pairs.emplace_back(other, name); }
  }
  if (pairs.empty()) {
    std::vector<const ArmRecord*> siblings;
    for (const auto& name : ran) {
      const auto* record = known_arm(records, name);
      if (record != nullptr && (siblings.empty() || record->base == siblings[0]->base)) {
        siblings.push_back(record);
      }
    }
    std::ranges::stable_sort(siblings,
                             [](const auto* a, const auto* b) { return a->position < b->position; });
    for (std::size_t i = 1; i < siblings.size(); ++i) {
      pairs.emplace_back(siblings[0]->name, siblings[i]->name);
    }
  }
  if (pairs.empty()) { pairs.emplace_back(arm_bare_metal, arm_vm); }
  return pairs;
}

std::set<std::string> changed_keys(const ArmRecords& records, const std::string& baseline,
                                   const std::string& candidate) {
  const ArmRecord none;
  const auto* ours = known_arm(records, baseline);
  const auto* theirs = known_arm(records, candidate);
  const auto& a = (ours == nullptr ? none : *ours).changes;
  const auto& b = (theirs == nullptr ? none : *theirs).changes;
  std::set<std::string> keys;
  for (const auto* some : {&a, &b}) {
    const auto& others = some == &a ? b : a;
    for (const auto& [key, value] : *some) {
      const auto other = others.find(key);
      if (other == others.end() || other->second != value) { keys.insert(key); }
    }
  }
  return keys;
}

bool same_base(const ArmRecords& records, const std::string& baseline, const std::string& candidate) {
  if (baseline == candidate) { return true; }
  const auto* ours = known_arm(records, baseline);
  const auto* theirs = known_arm(records, candidate);
  return ours != nullptr && theirs != nullptr && !ours->base.empty() && ours->base == theirs->base;
}

bool is_attached(const ArmRecords& records, const std::string& arm) {
  const auto* record = known_arm(records, arm);
  return record != nullptr && record->base == arm_attach;
}

bool are_of_other_machines(const ArmRecords& records, const std::string& baseline,
                           const std::string& candidate) {
  if (!is_attached(records, baseline) && !is_attached(records, candidate)) { return false; }
  const auto root_of = [&](const std::string& arm) {
    std::string root = arm;
    nearest_like(records, arm, [&](const std::string& name) {
      root = name;
      return false;
    });
    return root;
  };
  return root_of(baseline) != root_of(candidate);
}

}  // namespace virtrain::results
