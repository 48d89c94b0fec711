#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/model/job.h"
#include "harness/scenario/line_pattern.h"
#include "results/store/records.h"

// Figures that a command of the user's own says beside its throughput. Pure.

namespace virtrain::harness {

/// The most figures that differ in name, settings, node or rank; more of them are a flood.
inline constexpr std::size_t most_distinct_figures = 10'000;

/// Who says a figure: a rank of mpirun, else a node.
struct FigureOwner {
  std::string node = {};
  std::optional<std::int64_t> rank = {};

  auto operator<=>(const FigureOwner&) const = default;  // NOLINT(modernize-use-nullptr)
  /// "rank 3", "t1n2".
  std::string name() const;
  /// A figure that it says, without its value.
  results::Figure figure(std::string name, std::string unit) const;
};

/// Finds figures in lines, and has the mean of each over the trial.
class JobFigures {
 public:
  explicit JobFigures(const std::vector<JobFigureLines>& rules);

  /// Readings in the line. Throws Error(protocol) where there are too many that differ.
  std::vector<results::Figure> take(std::string_view line, const FigureOwner& owner, std::int64_t t_ns);
  /// Means of the readings that count.
  std::vector<results::Figure> values() const;
  /// Figures that nobody said; `owners`: all of those who say figures of the scopes node and rank.
  std::vector<std::string> doubts(const std::vector<FigureOwner>& owners) const;

 private:
  struct Rule {
    const JobFigureLines* lines;
    LinePattern pattern;
    std::optional<FigureOwner> speaker = {};  ///< of a figure that one says for all: the first who does
  };
  struct Key {
    std::size_t rule = 0;
    FigureOwner owner = {};  ///< nobody of a figure of the whole job
    std::map<std::string, std::string> settings = {};
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Tally {
    std::int64_t said = 0;
    double mean = 0;  ///< of those after the skipped ones
  };
  std::int64_t counted(std::size_t rule, const Tally& tally) const;
  results::Figure figure_of(const Key& key) const;

  std::vector<Rule> rules_;
  std::map<Key, Tally> tallies_;
};

}  // namespace virtrain::harness
