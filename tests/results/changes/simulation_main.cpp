// changes-simulation quiet|loss SEED SERIES SIGMA_LOW SIGMA_HIGH: simulated nights and what level_changes()
// says of them, a line of JSON a series: {"change_at": index or null, "nights": [values], "confirmed":
// [[first, confirmed on, ratio], …]}. scripts/bench changes reads it.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "results/changes/level_changes.h"
#include "tests/results/changes/noise.h"

using namespace virtrain::results;

int main(int count, char** arguments) {
  if (count != 6) {
    fmt::print(stderr, "usage: changes-simulation quiet|loss SEED SERIES SIGMA_LOW SIGMA_HIGH\n");
    return 2;
  }
  const bool loss = std::string(arguments[1]) == "loss";
  const auto seed = std::strtoull(arguments[2], nullptr, 10);
  const auto series = std::strtoull(arguments[3], nullptr, 10);
  const double low = std::strtod(arguments[4], nullptr);
  const double high = std::strtod(arguments[5], nullptr);
  for (std::uint64_t number = 0; number < series; ++number) {
    std::mt19937_64 random(seed * 1000003 + number);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    NoiseSettings noise;
    noise.sigma = low + (high - low) * uniform();
    noise.autocorrelation = 0.5 * uniform();
    const auto change_at = loss ? 30 + static_cast<std::size_t>(60 * uniform()) : SIZE_MAX;
    const auto values = simulate_nights(random(), loss ? change_at + 12 : 365, noise, change_at, 0.97);
    std::vector<double> nights;
    std::size_t first = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      first += values[i] && i < change_at ? 1 : 0;
      if (values[i]) { nights.push_back(*values[i]); }
    }
    if (loss) { nights.resize(std::min(nights.size(), first + 3)); }
    std::string confirmed;
    for (const auto& change : level_changes(nights)) {
      if (!change.confirmed_on) { continue; }
      confirmed += fmt::format("{}[{}, {}, {}]", confirmed.empty() ? "" : ", ", change.first,
                               *change.confirmed_on, change.ratio);
    }
    fmt::print("{{\"change_at\": {}, \"nights\": [{}], \"confirmed\": [{}]}}\n",
               loss ? std::to_string(first) : "null", fmt::join(nights, ", "), confirmed);
  }
}
