#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/store/probe_settings.h"

namespace virtrain::results {

/// "SM", "gdr-only operation=alltoall": for people, short enough for a table.
std::string settings_words(const ProbeSettings& settings);

/// Identity of a probe's figure, without the arm. Two figures are the same only if all of it is.
struct ProbeKey {
  std::string name, data_type;
  std::string side;              ///< "in place" or "out of place" where the source says it
  std::string unit;              ///< of the values: B/s, FLOP/s, s
  std::int64_t nodes = -1;       ///< -1: not said
  std::int64_t ranks = -1;       ///< likewise
  std::int64_t size_bytes = -1;  ///< likewise
  std::string transport = {};    ///< only where one arm has figures over several
  ProbeSettings settings = {};

  auto operator<=>(const ProbeKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Key of one probe alone, so without its transport.
ProbeKey key_of(const Probe& probe);

/// All readings of one figure in one arm.
struct ProbeReadings {
  std::vector<double> values;
  std::vector<double> bus;         ///< bus bandwidths in B/s, where the source has them
  std::int64_t wrong = 0;          ///< elements that were not what they should be
  std::vector<std::int64_t> runs;  ///< that measured the values, as far as anybody said

  bool knows_runs() const { return runs.size() == values.size(); }
};

using ProbeFigures = std::map<ProbeKey, std::map<std::string, ProbeReadings>>;

/// By figure and arm.
ProbeFigures probe_figures(const std::vector<Probe>& probes);

/// Figures that both arms measured alike, as numbers of `explain`: "probe.host_to_device" and, of products,
/// "probe.gemm.bfloat16". A collective's is its best bus bandwidth over the sizes that both have. Among
/// figures that differ in settings the pair that differs most counts, for each is an upper bound of what it
/// explains.
struct SharedProbes {
  std::map<std::string, double> baseline, candidate;
  std::map<std::string, std::string> units;     ///< of both sides' numbers
  std::map<std::string, std::string> settings;  ///< in words, of the numbers that have some
};
SharedProbes shared_probes(const std::vector<const Probe*>& baseline,
                           const std::vector<const Probe*>& candidate);

/// Causes that others have found behind collectives that are slow over nodes, in the order in which to look.
inline constexpr const char* slow_collective_causes =
    "ATS in the adapter, ACS with DirectTrans on its path, relaxed ordering, and an adapter below the same "
    "switch as its GPU";
/// A collective is slow that has less than this share of the baseline's rate.
inline constexpr double slow_collective_share = 0.9;

}  // namespace virtrain::results
