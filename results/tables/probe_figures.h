#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/store/records.h"

namespace virtrain::results {

/// What tells one probe's figure from another's but the arm.
struct ProbeKey {
  std::string name, data_type;
  std::string side;                     ///< "in place" or "out of place" where the source says it
  std::string unit;                     ///< of the values: B/s, FLOP/s, s
  std::int64_t ranks = -1;              ///< -1: not said
  std::int64_t size_bytes = -1;         ///< likewise
  std::vector<std::string> where = {};  ///< ReFrame's system, partition and environment

  auto operator<=>(const ProbeKey&) const = default;
};

/// All readings of one figure in one arm.
struct ProbeReadings {
  std::vector<double> values;
  std::vector<double> bus;  ///< bus bandwidths in B/s, where the source has them
  std::int64_t wrong = 0;   ///< elements that were not what they should be
};

/// By figure and arm.
std::map<ProbeKey, std::map<std::string, ProbeReadings>> probe_figures(const std::vector<Probe>& probes);

/// "in place", "cluster compute gnu": side and place, for people.
std::string side_words(const ProbeKey& key);

/// "11.7 GB/s" of 11.7e9 B/s.
std::string figure_with_unit(double value, const std::string& unit);

}  // namespace virtrain::results
