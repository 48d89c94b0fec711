#include "results/comparison/selector.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
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

}  // namespace virtrain::results
