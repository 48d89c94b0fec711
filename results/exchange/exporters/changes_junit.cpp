#include <fmt/format.h>
#include <pugixml.hpp>

#include <map>
#include <ostream>

#include "common/text/printable.h"
#include "results/changes/changes.h"
#include "results/exchange/exporters/exporters.h"

namespace virtrain::results {
namespace {

/// "worse (-10.1 %) since n15": the line that a CI system shows first.
std::string headline_of(const Change& change) {
  return fmt::format("{}{} ({}) since {}", change.level.large ? "much " : "",
                     change.regression ? "worse" : "better", change_percent(change.level.ratio),
                     excerpt(change.first_night().experiment));
}

std::string details_of(const Change& change, const std::string& database_option) {
  const auto& level = change.level;
  std::string text =
      fmt::format("change {}, {}: {}\n", change.id, to_string(change.state), headline_of(change));
  if (level.ci && level.confirmed_on) {
    text += fmt::format("95 % interval: {} to {}\n", change_percent(level.ci->low),
                        change_percent(level.ci->high));
  }
  text += fmt::format("before: {:.6g} {}\nafter: {:.6g} {}\n", level.before, excerpt(change.series->unit),
                      level.after, excerpt(change.series->unit));
  text += fmt::format("first run: {} of {}\n", excerpt(change.first_night().experiment),
                      excerpt(change.first_night().started_at));
  for (const auto& one : change.suspects) {
    text += fmt::format("{}: {} ({} → {}), fits {:.0f} %\n", one.fits ? "suspect" : "changed in another run",
                        excerpt(one.fact), excerpt(one.before), excerpt(one.after), one.fit * 100);
  }
  if (level.confirmed_on && (change.suspects.empty() || !change.suspects.front().fits)) {
    text += "nothing stored fits\n";
  }
  if (!change.why.empty()) { text += "acknowledged: " + excerpt(change.why, longest_shown_bytes) + "\n"; }
  if (is_alarm(change)) {
    text += fmt::format("accept it: virtrain ack {} \"why\"{}\n", change.id, database_option);
  }
  return text;
}

/// pugixml escapes markup; what XML cannot hold at all (control characters) printable() has replaced.
void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(excerpt(value, longest_shown_bytes).c_str());
}

/// Names of CI systems have two parts: the class is the case in its arm, the test is the figure.
void add_test_case(pugi::xml_node suite, const SeriesState& state, const std::string& database_option) {
  const auto& series = *state.series;
  auto node = suite.append_child("testcase");
  set(node, "classname",
      fmt::format("{}/{}{}{}", series.scenario, series.case_name, series.case_name.empty() ? "" : "/",
                  series.arm));
  set(node, "name", series.figure_name());
  if (!state.open_losses.empty()) {
    std::string text;
    for (const Change* loss : state.open_losses) { text += details_of(*loss, database_option); }
    auto failure = node.append_child("failure");
    set(failure, "type", "loss");
    set(failure, "message", headline_of(*state.open_losses.back()));
    failure.text().set(printable(text).c_str());
  }
  std::string others;
  for (const Change* change : state.changes) {
    if (!is_alarm(*change)) { others += details_of(*change, database_option); }
  }
  if (!others.empty()) { node.append_child("system-out").text().set(printable(others).c_str()); }
}

void set_counts(pugi::xml_node node, const std::vector<SeriesState>& states) {
  std::size_t failures = 0;
  for (const auto& state : states) { failures += state.open_losses.empty() ? 0 : 1; }
  set(node, "tests", std::to_string(states.size()));
  set(node, "failures", std::to_string(failures));
  set(node, "errors", "0");
  set(node, "skipped", "0");
}

}  // namespace

void export_changes_junit(const ChangeLog& log, std::ostream& out, const std::string& database_option) {
  const auto states = series_states(log);
  std::map<std::string, std::vector<SeriesState>> scenarios;
  for (const auto& state : states) { scenarios[state.series->scenario].push_back(state); }
  pugi::xml_document document;
  auto root = document.append_child("testsuites");
  set(root, "name", "virtrain changes");
  set_counts(root, states);
  for (const auto& [scenario, of_scenario] : scenarios) {
    auto suite = root.append_child("testsuite");
    set(suite, "name", scenario);
    set_counts(suite, of_scenario);
    for (const auto& state : of_scenario) { add_test_case(suite, state, database_option); }
  }
  document.save(out, "  ");
}

}  // namespace virtrain::results
