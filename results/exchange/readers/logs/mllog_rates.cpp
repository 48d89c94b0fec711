// Keys are those of mlcommons/logging, mlperf_logging/mllog/constants.py.
#include "results/exchange/readers/logs/mllog_rates.h"

#include <cmath>

#include "common/text/json.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// A finite number, as a number or as text.
std::optional<double> said_number(const json& value) {
  if (value.is_string()) { return parse_number(value.get_ref<const std::string&>()); }
  const auto number = value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<double> above_zero_in(const json& value) {
  const auto number = value.is_number() ? said_number(value) : std::nullopt;
  return number && *number > 0 ? number : std::nullopt;
}

}  // namespace

std::optional<MllogRate> MllogRates::of_interval(const std::string& kind, const json& object) {
  const auto now = above_zero_in(member(object, "time_ms"));
  const auto found = open_.find(kind);
  if (!now || found == open_.end()) { return std::nullopt; }
  const auto interval = found->second;
  open_.erase(found);
  MllogRate rate;
  constexpr double ms_per_second = 1e3;
  rate.seconds = (*now - interval.start_ms) / ms_per_second;
  if (kind == "epoch") {
    rate.samples = samples_of_epoch_;
  } else if (const auto samples = said_number(member(member(object, "metadata"), "samples_count"));
             samples && interval.samples && !has_epochs_) {
    rate.samples = *samples - *interval.samples;
  }
  if (!(rate.samples > 0) || !(rate.seconds > 0)) { return std::nullopt; }
  rate.rate = rate.samples / rate.seconds;
  return rate;
}

std::optional<MllogRate> MllogRates::take(const json& object) {
  const auto key = text_in(object, "key");
  const auto& value = member(object, "value");
  if (key == "throughput" || key == "tracked_stats") {
    const bool is_plain = key == "throughput";
    const auto& said = is_plain ? value : member(value, "throughput");
    if (!said.is_number() && !said.is_string()) { return std::nullopt; }
    const auto rate = said_number(said);
    return MllogRate{is_plain ? MllogSource::throughput : MllogSource::tracked_stats, said,
                     rate && *rate > 0 ? *rate : 0};
  }
  if (key == "train_samples") { samples_of_epoch_ = above_zero_in(value).value_or(0); }
  for (const std::string kind : {"epoch", "block"}) {
    if (key == kind + "_start") {
      has_epochs_ = has_epochs_ || (kind == "epoch" && samples_of_epoch_ > 0);
      const auto start = above_zero_in(member(object, "time_ms"));
      if (start) { open_[kind] = {*start, said_number(member(member(object, "metadata"), "samples_count"))}; }
    } else if (key == kind + "_stop") {
      return of_interval(kind, object);
    }
  }
  return std::nullopt;
}

std::optional<json> mllog_object(std::string_view line) {
  constexpr JsonLimits limits{.bytes = 64U << 10, .depth = 16, .values = 10'000};
  const auto mark = line.find(mllog_mark);
  if (mark == std::string_view::npos) { return std::nullopt; }
  auto object = parse_json_or_null(line.substr(mark + mllog_mark.size()), limits);
  return object.is_object() ? std::optional(std::move(object)) : std::nullopt;
}

}  // namespace virtrain::results
