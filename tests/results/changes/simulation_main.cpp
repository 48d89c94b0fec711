// changes-simulation quiet|loss SEED SERIES SIGMA_LOW SIGMA_HIGH [plain|hosts|rough [SIZE [NIGHTS]]]:
// simulated nights and what level_changes() says of them, a line of JSON a series: {"change_at": index or
// null, "nights": [values], "confirmed": [[first, confirmed on, ratio], …]}. A quiet series has NIGHTS nights
// (365), one with a loss of SIZE (0.03) as many from the loss on (3). scripts/bench changes reads it.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "results/changes/level_changes.h"
#include "tests/results/changes/noise.h"

using namespace virtrain::results;

int main(int count, char** arguments) {
  if (count < 6) {
    fmt::print(stderr,
               "usage: changes-simulation quiet|loss SEED SERIES SIGMA_LOW SIGMA_HIGH [plain|hosts|rough "
               "[SIZE [NIGHTS]]]\n");
    return 2;
  }
  const bool loss = std::string(arguments[1]) == "loss";
  const auto seed = std::strtoull(arguments[2], nullptr, 10);
  const auto series = std::strtoull(arguments[3], nullptr, 10);
  const double low = std::strtod(arguments[4], nullptr);
  const double high = std::strtod(arguments[5], nullptr);
  const std::string kind = count > 6 ? arguments[6] : "hosts";
  const double size = count > 7 ? std::strtod(arguments[7], nullptr) : 0.03;
  const std::size_t length = count > 8 ? std::strtoull(arguments[8], nullptr, 10) : loss ? 3 : 365;
  for (std::uint64_t number = 0; number < series; ++number) {
    std::mt19937_64 random(seed * 1000003 + number);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    const double sigma = low + (high - low) * uniform();
    const double autocorrelation = 0.5 * uniform();
    auto noise = kind == "plain"   ? plain_noise(sigma)
                 : kind == "rough" ? rough_noise(sigma)
                                   : NoiseSettings{sigma};
    if (kind == "hosts") { noise.autocorrelation = autocorrelation; }
    const auto change_at = loss ? 30 + static_cast<std::size_t>(60 * uniform()) : SIZE_MAX;
    const auto values =
        simulate_nights(random(), loss ? change_at + std::max<std::size_t>(12, 2 * length) : length, noise,
                        change_at, 1 - size);
    std::vector<double> nights;
    std::size_t first = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      first += values[i] && i < change_at ? 1 : 0;
      if (values[i]) { nights.push_back(*values[i]); }
    }
    if (loss) { nights.resize(std::min(nights.size(), first + length)); }
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
