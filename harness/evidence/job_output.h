#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/model/job.h"
#include "harness/scenario/line_pattern.h"
#include "results/exchange/readers/logs/mllog_rates.h"
#include "results/store/records.h"

// Judges what a command of the user's own prints of its speed. Pure.

namespace virtrain::harness {

/// The most figures that are kept of a job; more of them are a flood.
inline constexpr std::size_t most_job_figures = 1'000'000;

/// One figure of a job: a rate since the figure before.
struct JobFigure {
  std::int64_t t_ns = 0;            ///< when its line reached the agent, on the coordinator's clock
  double value = 0;                 ///< work a second, as the line says
  std::optional<double> work = {};  ///< done in all until then, as the line says
  /// It is of a better kind than all before it, which count no longer: a throughput in the log, in place of
  /// those that time stamps make.
  bool replaces_others = false;
};

/// Lines that should say a figure, and what they say is none.
struct MisreadLines {
  std::size_t count = 0;
  std::int64_t last_ns = 0;  ///< when the last one came
  std::string words;         ///< the last one's: "'nan', which is not a number above zero"
};

/// Reads the figures of one node or rank. Stateful: some programs say the mean of all steps so far.
class FigureReader {
 public:
  explicit FigureReader(const JobThroughput& throughput);
  /// The figure of a line; nothing where it says none.
  std::optional<JobFigure> read(std::string_view line, std::int64_t t_ns);
  /// Lines so far whose figure is none.
  const MisreadLines& misread() const { return misread_; }

 private:
  std::optional<JobFigure> read_mllog(std::string_view line, std::int64_t t_ns);

  std::optional<LineFormat> format_;
  std::optional<LinePattern> pattern_;
  MisreadLines misread_;
  double steps_before_ = 0, time_before_ = 0;
  results::MllogRates rates_;
  std::optional<results::MllogSource> rate_source_;  ///< of the figures so far
};

/// The figures of one of those that say any: "the job", "t1n2", "rank 3".
struct FigureSource {
  std::string name;
  std::vector<JobFigure> figures;
  MisreadLines misread = {};
};

/// A job's throughput, and why it is not to be believed.
struct JobResult {
  double throughput = 0;                  ///< 0: there is none
  std::int64_t begin_ns = 0, end_ns = 0;  ///< of the window that counts
  std::size_t figures = 0;                ///< that count, of all sources
  std::vector<std::string> doubts = {};
  std::vector<results::Figure> others = {};  ///< that the same output says
};

/// Judges figures of all sources that were expected to say any, within the window in which all of them
/// report, each after its first `skip`. `ranks`: of the job, for figures that speak for each of them.
JobResult judge_job(const std::vector<FigureSource>& sources, const JobThroughput& how, std::int64_t ranks);

// Figures that a command of the user's own says beside its throughput. Pure.
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
    bool counts = false;                      ///< it has readings behind those that are skipped
    std::string misread = {};                 ///< what the last line says that is none of its figures
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
