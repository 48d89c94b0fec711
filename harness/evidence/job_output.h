#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
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

/// Reads the figures of one node or rank. Stateful: some programs say the mean of all steps so far.
class FigureReader {
 public:
  explicit FigureReader(const JobThroughput& throughput);
  /// The figure of a line; nothing where it says none.
  std::optional<JobFigure> read(std::string_view line, std::int64_t t_ns);

 private:
  std::optional<JobFigure> read_mllog(std::string_view line, std::int64_t t_ns);

  std::optional<LineFormat> format_;
  std::optional<LinePattern> pattern_;
  double steps_before_ = 0, time_before_ = 0;
  results::MllogRates rates_;
  std::optional<results::MllogSource> rate_source_;  ///< of the figures so far
};

/// The figures of one of those that say any: "the job", "t1n2", "rank 3".
struct FigureSource {
  std::string name;
  std::vector<JobFigure> figures;
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

}  // namespace virtrain::harness
