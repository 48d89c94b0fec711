#pragma once

#include <string>
#include <vector>

#include "results/changes/changes.h"
#include "results/store/store.h"

namespace virtrain::results {

/// The series whose name contains the text (empty: all), their changes, and the suspects of confirmed ones.
ChangeLog read_changes(const Store& store, const std::string& series_text = "", const ChangeRule& rule = {});
/// The same of the series of one scenario.
ChangeLog read_changes_of(const Store& store, const std::string& scenario);

/// Takes a confirmed change for the new normal. Error(not_found) without such a change, Error(usage) for one
/// that nobody can acknowledge yet, or for an empty reason.
void acknowledge(Store& store, const std::string& change, const std::string& why, const std::string& now);

}  // namespace virtrain::results
