#include "harness/schedule/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/json.h"
#include "common/text/printable.h"

namespace virtrain::harness {
namespace {

/// Nobody has to look at it any more.
bool is_over(const std::string& event) {
  return event == "mended" || event == "superseded";
}

/// One line within the 998 bytes that a line of a mail may have (RFC 5322, 2.1.1): imported names may be long
/// and have lines of their own.
std::string sentence(const results::Change& change, const std::string& event) {
  constexpr std::size_t most_bytes = 100;
  const auto name = excerpt(change.series->name());
  const auto percent = results::change_percent(change.level.ratio);
  if (is_over(event)) {
    return fmt::format("{}: the change of {} is {}", name, percent,
                       event == "mended" ? event : "over: the scenario was changed");
  }
  auto text = fmt::format("{}: {}{} ({}) since {}", name, change.level.large ? "much " : "",
                          change.regression ? "worse" : "better", percent,
                          excerpt(change.first_night().experiment, most_bytes));
  if (event == "grown") { text += ", more than was told"; }
  if (change.suspects.empty() || !change.suspects.front().fits) {
    return text + (event == "confirmed" ? "; nothing stored fits" : "");
  }
  const auto& first = change.suspects.front();
  text += fmt::format("; suspect: {} ({} → {})", excerpt(first.fact, most_bytes),
                      excerpt(first.before, most_bytes), excerpt(first.after, most_bytes));
  const auto others = std::ranges::count_if(change.suspects, &results::Suspect::fits) - 1;
  if (others > 0) { text += fmt::format(" and {} more that changed with it", others); }
  return text;
}

/// In the words of alerting tools, for rules on who is woken up.
const char* severity_of(const results::Change& change, const std::string& event) {
  if (is_over(event) || !change.regression) { return "info"; }
  return change.level.large ? "critical" : "warning";
}

/// A message about a large change differs from the one about the same change while it was small.
std::string key_of(const results::Change& change, const std::string& event) {
  return change.id + " " + event + (change.level.large && !is_over(event) ? " large" : "");
}

Message message_of(const std::string& schedule, const results::Change& change, const std::string& event) {
  const auto& level = change.level;
  auto suspects = nlohmann::json::array();
  for (const auto& one : change.suspects) {
    suspects.push_back({{"fact", one.fact},
                        {"before", one.before},
                        {"after", one.after},
                        {"fit", one.fit},
                        {"fits", one.fits}});
  }
  return {key_of(change, event),
          {{"event", event},
           {"schedule", schedule},
           {"text", sentence(change, event)},
           {"change", change.id},
           {"series", change.series->name()},
           {"direction", change.regression ? "worse" : "better"},
           {"severity", severity_of(change, event)},
           {"large", level.large},
           {"ratio", level.ratio},
           {"ratio_ci_low", level.ci ? nlohmann::json(level.ci->low) : nlohmann::json()},
           {"ratio_ci_high", level.ci ? nlohmann::json(level.ci->high) : nlohmann::json()},
           {"first_experiment", change.first_night().experiment},
           {"first_started_at", change.first_night().started_at},
           {"suspects", suspects}}};
}

}  // namespace

std::vector<Message> messages_of(const std::string& schedule, const std::vector<results::Change>& changes,
                                 const std::set<std::string>& told, const std::string& mark) {
  std::vector<Message> messages;
  const auto add = [&](const results::Change& change, const std::string& event) {
    messages.push_back(message_of(schedule, change, event));
    messages.back().key += mark;
  };
  for (const auto& change : changes) {
    const auto was_told = [&](const char* event) { return told.contains(change.id + event + mark); };
    const bool as_large = was_told(" confirmed large") || was_told(" grown large");
    const bool at_all = was_told(" confirmed") || as_large;
    if (change.state == results::ChangeState::open) {
      const auto over = change.id + " superseded" + mark;
      if (told.contains(over)) {  // the scenario is what it was before
        add(change, "confirmed");
        messages.back().takes_back.push_back(over);
      } else if (!at_all) {
        add(change, "confirmed");
      } else if (change.level.large && !as_large) {
        add(change, "grown");
      }
    } else if (change.state == results::ChangeState::mended && at_all && !was_told(" mended")) {
      add(change, "mended");
    } else if (change.state == results::ChangeState::superseded && at_all && !was_told(" superseded")) {
      add(change, "superseded");
    }
  }
  return messages;
}

}  // namespace virtrain::harness
