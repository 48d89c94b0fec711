#include "results/exchange/readers/logs/mark_fall.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/text/units.h"

namespace virtrain::results {

std::string fall_words(const SpeedFall& fall, const LineReader& lines) {
  return fmt::format(
      "the steps {} from about {} to {} images/s at {}:{}, and one mean cannot describe both levels; check "
      "the vGPU "
      "licence, temperature and power limits",
      fall.after < fall.before ? "fall" : "rise", figure_words(fall.before), figure_words(fall.after),
      std::filesystem::path(lines.name()).filename().string(), fall.line);
}

void mark_fall(nlohmann::json& trial, const std::vector<StepSpeed>& speeds, const LineReader& lines,
               RecordImporter& importer) {
  const auto fall = find_fall(speeds);
  if (!fall) { return; }
  trial["valid"] = false;
  trial["invalid_reason"] = fall_words(*fall, lines);
  importer.note("the trial has no verdict: " + fall_words(*fall, lines));
}

}  // namespace virtrain::results
