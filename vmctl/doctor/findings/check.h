#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model/check.h"

namespace virtrain::vmctl {

/// The finding of a check, and the advice.
struct CheckAnswer {
  std::string found;
  std::string fix = {};                   ///< empty: all is well
  std::optional<Severity> severity = {};  ///< where it depends on what was found or wanted
  bool skipped = false;                   ///< there was nothing to judge, as `found` says
  std::optional<double> loss = {};        ///< as of Finding
};

/// One row of a table of checks.
template <typename Subject>
struct Check : CheckRow {
  bool (*applies)(const Subject& subject);
  CheckAnswer (*look)(const Subject& subject);
  const char* source = "";  ///< as of CheckDescription
};

/// The answer of one check; skipped, with the words of `applies_when`, where it does not apply.
template <typename Subject>
Finding examine(const Check<Subject>& check, const Subject& subject) {
  if (!check.applies(subject)) { return not_judged(check, "applies when"); }
  auto answer = check.look(subject);
  const auto status = answer.skipped       ? CheckStatus::skipped
                      : answer.fix.empty() ? CheckStatus::ok
                                           : CheckStatus::failed;
  return {check.id,
          answer.severity.value_or(check.severity),
          status,
          std::move(answer.found),
          std::move(answer.fix),
          true,
          answer.loss};
}

/// The answers of a table, in its order.
template <typename Subject>
std::vector<Finding> examine_all(std::span<const Check<Subject>> checks, const Subject& subject) {
  std::vector<Finding> findings;
  for (const auto& check : checks) { findings.push_back(examine(check, subject)); }
  return findings;
}

}  // namespace virtrain::vmctl
