#include "harness/cli/comparison_arguments.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {

double share(const std::string& flag, const std::string& text, double below) {
  const auto value = parse_share(text);
  if (!value || *value <= 0 || *value >= below) {
    throw Error(
        "read the command line", ErrorCode::usage,
        fmt::format("{} {} is not allowed (allowed: a share such as 2% or 0.02, above 0 and below {}{})",
                    flag, text, below,
                    parse_share(text + "%").value_or(below) < below ? "; did you mean " + text + "%?" : ""));
  }
  return *value;
}

std::vector<std::int64_t> node_counts(const std::string& text) {
  constexpr std::int64_t most = 1'000'000;
  std::vector<std::int64_t> sizes;
  for (const auto& part : split(text, ',')) {
    const auto nodes = parse_integer(trim(part));
    if (!nodes || *nodes < 1 || *nodes > most) {
      throw Error(
          "read the command line", ErrorCode::usage,
          fmt::format("--predict {} is not allowed (allowed: node counts such as 8,64,1024, at most {})",
                      text, most));
    }
    sizes.push_back(*nodes);
  }
  return sizes;
}

}  // namespace virtrain::harness
