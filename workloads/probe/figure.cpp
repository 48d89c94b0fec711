#include "workloads/probe/figure.h"

#include "common/json.h"
#include "common/time.h"
#include "common/units.h"

#include <fmt/format.h>

namespace virtrain::probe {
namespace {

std::string rate(const Figure& figure) {
  if (figure.unit == "s") return fmt::format("{:.2f} us", figure.value * 1e6);
  return fmt::format("{:.2f} G{}", figure.value * 1e-9, figure.unit);
}

}  // namespace

nlohmann::json to_json(const Figure& figure) {
  return {{"name", figure.name},
          {"node", text_or_null(figure.node)},
          {"transport", text_or_null(figure.transport)},
          {"data_type", text_or_null(figure.data_type)},
          {"nodes", figure.nodes},
          {"ranks", figure.ranks},
          {"size_bytes", or_null(figure.size_bytes)},
          {"seconds", figure.seconds},
          {"value", figure.value},
          {"unit", figure.unit},
          {"bus_bytes_per_second", or_null(figure.bus_bytes_per_second)},
          {"wrong", figure.wrong},
          {"measured_at", iso8601(wall_ns())},
          {"detail", figure.detail}};
}

std::string table_header() {
  return fmt::format("{:<12} {:>9} {:>10} {:>14} {:>16} {:>8}\n", "probe", "type", "size", "time (us)",
                     "figure", "#wrong");
}

std::string table_line(const Figure& figure) {
  return fmt::format("{:<12} {:>9} {:>10} {:>14.2f} {:>16} {:>8}\n", figure.name, figure.data_type,
                     figure.size_bytes ? format_size(*figure.size_bytes) : "", figure.seconds * 1e6,
                     rate(figure), figure.wrong);
}

}  // namespace virtrain::probe
