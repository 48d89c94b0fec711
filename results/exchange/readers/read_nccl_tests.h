#pragma once

#include <set>
#include <string>

#include "results/exchange/readers/readers.h"

namespace virtrain::results {

// What the readers of nccl-tests' table and of its JSON share.

/// Where the ranks of one test ran. NCCL_TESTS_SPLIT parts them into groups that run at the same time, each
/// by itself: the figures are then those of a collective among the ranks of the first.
class NcclRanks {
 public:
  void add(const std::string& host, const std::string& group, std::int64_t ranks);
  /// Sets the probe's ranks, nodes and node; the settings say what was not listed.
  void complete(nlohmann::json& probe, const ImportSettings& settings) const;

 private:
  std::string group_;  ///< the first
  std::set<std::string> groups_;
  std::set<std::string> hosts_, group_hosts_;
  std::int64_t ranks_ = 0;  ///< of the first group
};

/// What the program measures, by its name; --collective if that says nothing. Refuses two that differ.
std::string nccl_collective(const std::string& program, const ImportSettings& settings,
                            const LineReader& lines);

}  // namespace virtrain::results
