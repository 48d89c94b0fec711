#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain::results {

/// The mark of a line of MLPerf's logs, in front of its object.
inline constexpr std::string_view mllog_mark = ":::MLLOG ";

/// Where a rate of such a log comes from: samples between the time stamps of an epoch or block, the member
/// `throughput` of tracked_stats, a record of its own. A later one is better. Some programs log several.
enum class MllogSource { stamps, tracked_stats, throughput };

struct MllogRate {
  MllogSource source = MllogSource::stamps;
  nlohmann::json said = nullptr;    ///< as the log has it; null: the stamps said it
  double rate = 0;                  ///< samples a second; 0: what was said is no number above zero
  double samples = 0, seconds = 0;  ///< of stamps
};

/// Takes the objects of a log one after the other, and has the rates in it. Pure.
class MllogRates {
 public:
  /// The rate that the object says, or ends an interval with.
  std::optional<MllogRate> take(const nlohmann::json& object);

 private:
  struct Interval {
    double start_ms = 0;
    std::optional<double> samples = {};  ///< counted at its start
  };

  std::optional<MllogRate> of_interval(const std::string& kind, const nlohmann::json& object);

  double samples_of_epoch_ = 0;  ///< 0: the log has not said it
  bool has_epochs_ = false;      ///< blocks with counts are not read where epochs are
  std::map<std::string, Interval> open_;
};

/// The object of a line of such a log; nothing of other lines, and where it is damaged.
std::optional<nlohmann::json> mllog_object(std::string_view line);

}  // namespace virtrain::results
