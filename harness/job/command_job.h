#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/job.h"
#include "harness/evidence/job_output.h"
#include "harness/job/tenant_job.h"
#include "results/store/records.h"

namespace virtrain::harness {

// Figures of programs that print a table once, which only its end tells from a part of it.
/// Whether the format's figures come from the whole output, and not each from its line.
bool is_table(const JobThroughput& throughput);

/// All that one of a command's processes has printed, and when.
class JobTable {
 public:
  void add(std::string_view line, std::int64_t t_ns);

  /// Whether it has a row of figures.
  bool has_rows() const { return rows_ > 0; }
  /// Reads it as `import` does and judges it. `program`: the command's words, which may name the collective.
  /// The figures are all of the table's; the throughput is the bus bandwidth of the size that decides.
  JobResult judge(const JobThroughput& how, const std::string& program) const;

 private:
  std::string text_;
  std::int64_t first_ns_ = 0, last_row_ns_ = 0;
  std::int64_t rows_ = 0;
  double iterations_ = 1;  ///< of each operation that is timed
};

/// A command of the user's own in one tenant's nodes. It knows no barrier: its processes start when the
/// others are let go, and the window in which all of them report decides. A process that ends with another
/// status than 0 ends the wait for the others and leaves a doubt; one that has said figures and stands still
/// fails the job.
class CommandJob final : public TenantJob {
 public:
  /// `port`: where ranks of torchrun meet.
  CommandJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
             RankNetwork network, bool crowded, const MpiDialect& mpi, int port);

  /// Checks the paths between the nodes; nothing starts yet.
  asio::awaitable<void> launch(const std::string& program, std::chrono::seconds timeout) override;
  /// Starts the command.
  asio::awaitable<void> go() override;
  /// Until all its processes have ended.
  asio::awaitable<void> wait_for_counted_steps(std::chrono::milliseconds deadline) override;
  asio::awaitable<void> wait_for_results(std::chrono::milliseconds deadline) override;
  std::pair<std::int64_t, std::int64_t> counted_interval() const override;

  /// The figures of each that says any, where all of those that should are among them.
  std::vector<FigureSource> sources() const;
  /// Its throughput, once wait_for_results() has come back.
  const JobResult& result() const { return result_; }

  /// Its figures beside the throughput, over the trial.
  std::vector<results::Figure> figures() const;

  /// Told at each figure of the throughput.
  std::function<void(const JobFigure& figure)> on_figure;
  /// Told at each figure of any kind, as it is stored.
  std::function<void(const results::Figure& reading)> on_reading;

 private:
  struct Source {
    FigureReader reader;
    std::vector<JobFigure> figures = {};
    JobTable table = {};
  };

  void take_line(const Process& process, OutputStream stream, const RankLine& line,
                 std::int64_t t_ns) override;
  std::map<std::string, std::string> environment_of(std::size_t node, std::int64_t planned) const override;
  /// The hostname of one of the planned nodes that a node stands for.
  std::string name_of(std::size_t node, std::int64_t planned) const;
  bool have_all_ended() const;
  /// Why the end of one of its processes makes the trial invalid; empty: none ended badly.
  std::string ended_badly() const;
  /// Who says a figure: itself, or one of those who say the same.
  FigureOwner owner_of(const Process& process, const RankLine& line) const;
  /// All that say figures of the scope `rank` or `node`.
  std::vector<FigureOwner> owners(FigureScope scope) const;
  /// Judges the output of the one process that prints a table.
  JobResult judge_table() const;
  void take_throughput(const FigureOwner& owner, const RankLine& line, std::int64_t t_ns);
  void count_figures(std::size_t more);
  /// How long a command that has said figures may say nothing.
  std::chrono::nanoseconds most_silence() const;

  const Job& job_;
  int port_;
  std::chrono::seconds timeout_{0};
  std::map<FigureOwner, Source> sources_;
  std::optional<FigureOwner> speaker_;  ///< of figures that one says for all: the first who does
  JobFigures others_;                   ///< beside the throughput
  std::size_t figures_ = 0;
  std::int64_t last_figure_ns_ = 0, last_output_ns_ = 0;
  std::chrono::nanoseconds longest_gap_{0};
  JobResult result_;
};

}  // namespace virtrain::harness
