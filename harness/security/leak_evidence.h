#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/model/check.h"
#include "results/store/records.h"

namespace virtrain::harness {

/// Evidence of one search.
struct LeakEvidence {
  std::string lacks = {};    ///< what this host or node has not, so that the search could not be tried
  std::string failure = {};  ///< why it did not come to its end
  std::optional<bool> control = {};     ///< whether the planted canary was found
  std::vector<std::string> leaks = {};  ///< each one in words
  double scanned = 0, total = 0;
  std::string unit = "targets";
  std::string limits = {};  ///< what was left out, in words
};

/// A leak that was found is one whatever else happened; `not_found` needs a control that was found and
/// something that was scanned.
LeakResult judge(const LeakEvidence& evidence);

/// The row of the database.
results::LeakSearch to_record(const LeakEvidence& evidence, const std::string& name,
                              const std::string& tenants);

}  // namespace virtrain::harness
