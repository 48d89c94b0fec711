#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/record_importer.h"

namespace virtrain::results {

/// "the steps fall from …": why such a trial is not valid, with file and line.
std::string fall_words(const SpeedFall& fall, const LineReader& lines);

/// Marks a trial whose steps fell as not valid, and says it.
void mark_fall(nlohmann::json& trial, const std::vector<StepSpeed>& speeds, const LineReader& lines,
               RecordImporter& importer);

}  // namespace virtrain::results
