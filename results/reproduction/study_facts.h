#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "results/store/store.h"

namespace virtrain::results {

/// Facts of an experiment, by topic key; several values where its trials differ.
using StudyFacts = std::map<std::string, std::set<std::string>, std::less<>>;

/// From the records of a run, and from the `environment` of imported trials. Error(not_found) if there is no
/// such experiment.
StudyFacts study_facts(const Store& store, const std::string& experiment);

/// One line of the list of what differs; empty where a side does not say.
struct StudyDifference {
  std::string topic;
  std::string published;
  std::string own;
};

/// Topics on which the two do not say the same, also those on which only one says anything.
std::vector<StudyDifference> study_differences(const StudyFacts& published, const StudyFacts& own);

}  // namespace virtrain::results
