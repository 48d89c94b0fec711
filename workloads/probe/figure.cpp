#include "workloads/probe/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/model/protocol.h"
#include "common/system/time.h"
#include "common/text/described_json.h"
#include "common/text/units.h"

namespace virtrain::probe {
namespace {

std::string rate(const Figure& figure) {
  if (figure.unit == "s") { return fmt::format("{:.2f} us", figure.value * 1e6); }
  return fmt::format("{:.2f} G{}", figure.value * 1e-9, figure.unit);
}

int times_that_last(double seconds, double seconds_of_one) {
  constexpr double most = 10'000;
  return static_cast<int>(std::clamp(std::ceil(seconds / seconds_of_one), 1.0, most));
}

}  // namespace

nlohmann::json to_json(const Figure& figure) {
  const auto known = [](const std::string& text) {
    return text.empty() ? std::optional<std::string>() : std::optional(text);
  };
  protocol::ProbeFigure said;
  said.name = figure.name;
  said.node = known(figure.node);
  said.transport = known(figure.transport);
  said.data_type = known(figure.data_type);
  said.nodes = figure.nodes;
  said.ranks = figure.ranks;
  if (figure.size_bytes) { said.size_bytes = static_cast<std::int64_t>(*figure.size_bytes); }
  said.seconds = figure.seconds;
  said.value = figure.value;
  said.unit = figure.unit;
  said.bus_bytes_per_second = figure.bus_bytes_per_second;
  said.wrong = figure.wrong;
  said.measured_at = iso8601(wall_ns());
  auto fields = record_json(said);
  fields["detail"] = figure.detail;
  return fields;
}

std::string Table::lines(const std::vector<Figure>& figures) {
  constexpr std::size_t least_name_width = 12;
  std::size_t name_width = std::max(name_width_, least_name_width);
  std::size_t where_width = std::max(where_width_, std::string("where").size());
  for (const Figure& figure : figures) {
    name_width = std::max(name_width, figure.name.size());
    where_width = std::max(where_width, figure.where.size());
  }
  std::string text;
  if (name_width != name_width_ || where_width != where_width_) {
    text = fmt::format("{:<{}} {:<{}} {:>9} {:>10} {:>14} {:>16} {:>8}\n", "probe", name_width, "where",
                       where_width, "type", "size", "time (us)", "figure", "#wrong");
  }
  for (const Figure& figure : figures) {
    text += fmt::format("{:<{}} {:<{}} {:>9} {:>10} {:>14.2f} {:>16} {:>8}\n", figure.name, name_width,
                        figure.where, where_width, figure.data_type,
                        figure.size_bytes ? format_size(*figure.size_bytes) : "", figure.seconds * 1e6,
                        rate(figure), figure.wrong);
  }
  name_width_ = name_width;
  where_width_ = where_width;
  return text;
}

double best_seconds(int repetitions, const RunTimes& run) {
  constexpr double seconds_of_a_repetition = 0.02;
  constexpr int runs_to_wake_up = 15;  // an idle GPU takes some tenths of a second to its full clock
  run(1);                              // loads what is loaded at the first use
  int times = times_that_last(seconds_of_a_repetition, run(1));
  for (int k = 0; k < runs_to_wake_up; ++k) {
    times = times_that_last(seconds_of_a_repetition, run(times) / times);
  }
  double best = INFINITY;
  for (int k = 0; k < repetitions; ++k) {
    const double seconds = run(times) / times;
    if (k > 0) { best = std::min(best, seconds); }
  }
  return best;
}

}  // namespace virtrain::probe
