#include "harness/bisect/search.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace virtrain::harness {
namespace {

bool has_all(const Suspects& of, const Suspects& some) {
  return std::includes(of.begin(), of.end(), some.begin(), some.end());
}

Suspects both(Suspects some, const Suspects& others) {
  some.insert(others.begin(), others.end());
  return some;
}

Suspects without(const Suspects& some, const Suspects& others) {
  Suspects left;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                      std::inserter(left, left.begin()));
  return left;
}

bool is_loss(StepOutcome outcome) {
  return outcome == StepOutcome::loss || outcome == StepOutcome::part;
}

/// The search up to the first question that nobody has answered yet.
class Replay {
 public:
  explicit Replay(std::span<const Told> told) : told_(told) {}

  Search run(std::size_t suspects) {
    Suspects left;
    for (std::size_t i = 0; i < suspects; ++i) { left.insert(left.end(), i); }
    search_.candidates = left;
    const auto whole = ask(left);
    if (!whole) { return stopped(); }
    if (!*whole) { return ended(SearchEnd::nothing); }
    while (!left.empty()) {
      const auto cause = minimal({}, left, false);
      const auto confirmed = cause ? ask(*cause) : std::nullopt;
      if (!confirmed) { return stopped(); }
      // The answers contradict each other: noise was taken for an answer.
      if (!*confirmed) { return ended(search_.causes.empty() ? SearchEnd::unclear : SearchEnd::found); }
      search_.causes.push_back(*cause);
      left = without(left, *cause);
      search_.candidates = left;
      if (outcome_of(*cause) != StepOutcome::part || left.empty()) { break; }
      const auto rest = ask(left);
      if (!rest) { return stopped(); }
      if (!*rest) { break; }
    }
    return ended(SearchEnd::found);
  }

 private:
  std::optional<StepOutcome> outcome_of(const Suspects& tried) const {
    const auto found = std::ranges::find_if(told_, [&](const Told& one) { return one.tried == tried; });
    return found == told_.end() ? std::nullopt : std::optional(found->outcome);
  }

  /// Whether these suspects bring the loss, as was said or follows from what was said; nothing: ask.
  std::optional<bool> ask(const Suspects& tried) {
    if (tried.empty()) { return false; }
    if (const auto said = outcome_of(tried)) {
      if (*said != StepOutcome::unclear) { return is_loss(*said); }
      search_.end = SearchEnd::unclear;
      return std::nullopt;
    }
    for (const auto& one : told_) {
      if (is_loss(one.outcome) && has_all(tried, one.tried)) { return true; }
      if (one.outcome == StepOutcome::none && has_all(one.tried, tried)) { return false; }
    }
    search_.next = tried;
    return std::nullopt;
  }

  /// The fewest of `among` that bring the loss together with `beside` (Junker's QuickXplain, 2004): `beside`
  /// alone does not, with all of `among` it does. `partner`: one of the cause is known already.
  std::optional<Suspects> minimal(const Suspects& beside, const Suspects& among, bool partner) {
    search_.candidates = partner ? both(beside, among) : among;
    if (among.size() == 1) {
      // Alone it settles all that was asked beside others. One that acts together with others does not.
      if (!partner && !ask(among)) { return std::nullopt; }
      return among;
    }
    Suspects first;
    for (const auto one : among) {
      if (first.size() < (among.size() + 1) / 2) { first.insert(one); }
    }
    const auto second = without(among, first);
    const auto in_first = ask(both(beside, first));
    if (!in_first) { return std::nullopt; }
    if (*in_first) { return minimal(beside, first, partner); }
    auto of_second = minimal(both(beside, first), second, partner);
    if (!of_second) { return std::nullopt; }
    const auto enough = ask(both(beside, *of_second));
    if (!enough) { return std::nullopt; }
    if (*enough) { return of_second; }
    const auto of_first = minimal(both(beside, *of_second), first, true);
    return of_first ? std::optional(both(*of_second, *of_first)) : std::nullopt;
  }

  Search ended(SearchEnd end) {
    search_.end = end;
    search_.next.clear();
    return search_;
  }

  /// At a question, or at one that the pairs did not answer.
  Search stopped() {
    const bool asks = search_.end == SearchEnd::goes_on;
    if (asks) { return search_; }
    return ended(search_.causes.empty() ? SearchEnd::unclear : SearchEnd::found);
  }

  std::span<const Told> told_;
  Search search_;
};

}  // namespace

Search search(std::size_t suspects, std::span<const Told> told) {
  if (suspects == 0) { return {SearchEnd::nothing, {}, {}, {}}; }
  return Replay(told).run(suspects);
}

std::size_t most_comparisons(std::size_t suspects) {
  if (suspects < 2) { return suspects; }
  return static_cast<std::size_t>(std::bit_width(suspects - 1)) + 2;
}

}  // namespace virtrain::harness
