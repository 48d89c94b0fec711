#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/record_importer.h"

namespace virtrain::results {

/// Speed of some steps of a log, and the line that says it.
struct StepSpeed {
  double speed = 0;
  std::int64_t line = 0;
};

/// Where a log's speed falls for good, or for a tenth of the log and more; or rises after a quarter of it.
struct SpeedFall {
  double before = 0, after = 0;
  std::int64_t line = 0;  ///< the first at the second level
};

/// The step between two levels of which no mean says anything. None for a slow start, single slow steps or
/// pauses at intervals, noise and drift. Pure.
std::optional<SpeedFall> find_fall(const std::vector<StepSpeed>& speeds);

/// "the steps fall from …": why such a trial is not valid, with file and line.
std::string fall_words(const SpeedFall& fall, const LineReader& lines);

/// Marks a trial whose steps fell as not valid, and says it.
void mark_fall(nlohmann::json& trial, const std::vector<StepSpeed>& speeds, const LineReader& lines,
               RecordImporter& importer);

}  // namespace virtrain::results
