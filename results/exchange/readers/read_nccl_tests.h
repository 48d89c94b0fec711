#pragma once

#include <optional>
#include <set>
#include <string>

#include "results/exchange/readers/readers.h"

namespace virtrain::results {

// Helpers that the readers of nccl-tests' table and of its JSON share.

/// Where the ranks of one test ran. NCCL_TESTS_SPLIT parts them into groups that run at the same time, each
/// by itself: the figures are then those of a collective among the ranks of the first.
class NcclRanks {
 public:
  /// `rank` is its number; nothing where the source does not say it of each.
  void add(const std::string& host, const std::string& group, std::optional<std::int64_t> rank,
           std::int64_t ranks);
  /// Sets the probe's ranks, nodes and node; the settings say what was not listed.
  void complete(nlohmann::json& probe, const ImportSettings& settings) const;
  /// Refuses --ranks and --nodes that say something else.
  void refuse_other(const ImportSettings& settings, const LineReader& lines) const;
  /// How many ranks the figures are of, where that is known and one group did it all.
  std::optional<std::int64_t> of_figures(const ImportSettings& settings) const;
  /// The first number below the highest that no rank has; nothing if all are there.
  std::optional<std::int64_t> missing() const;
  /// Ranks that were listed, of all groups.
  std::int64_t listed() const { return std::ssize(numbers_); }

 private:
  std::string group_;  ///< the first
  std::set<std::string> groups_;
  std::set<std::string> hosts_, group_hosts_;
  std::set<std::int64_t> numbers_;
  std::int64_t ranks_ = 0;  ///< of the first group
};

/// Two bandwidths of a row, each with half a unit of the last digit that was printed.
struct BandwidthPair {
  double algorithm = 0, bus = 0;
  double algorithm_give = 0, bus_give = 0;
};
/// Why a collective's bus and algorithm bandwidth cannot be of that many ranks (nccl-tests' PERFORMANCE.md);
/// empty if they can, or the collective's factor does not depend on the ranks.
std::string contradiction(const std::string& collective, const BandwidthPair& row, std::int64_t ranks);

/// How operations are launched, where that is not one by one: {"agg_iters": 8, "graph": 10}.
nlohmann::json launch_settings(std::optional<std::int64_t> aggregated, std::optional<std::int64_t> graph);

/// The collective that the program measures, by its name; --collective if that says nothing. Refuses two that
/// differ.
std::string nccl_collective(const std::string& program, const ImportSettings& settings,
                            const LineReader& lines);

}  // namespace virtrain::results
