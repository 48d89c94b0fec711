#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/protocol.h"

namespace virtrain::harness {

/// Longest line of a workload's protocol (docs/workload-protocol.md).
inline constexpr std::size_t max_record_bytes = 4096;
/// The most that a job may print beside its records; also, for each rank, the limit of all records whose
/// number the plan does not say (warm-up, kinds that we pass over), and of the output of its remote shells.
inline constexpr std::size_t max_other_output_bytes = 8U << 20;
/// Cost of a line beside its text, for a million empty lines are no small matter either.
inline constexpr std::size_t line_bytes = 64;

/// One line of a job's output and the rank that wrote it, if mpirun's tag says so.
struct RankLine {
  std::optional<std::int64_t> rank;
  std::string text;
  std::int64_t t_ns = 0;  ///< when the last of its text came
};

/// Splits a job's output into lines of ranks. mpirun forwards pieces of up to 4,096 bytes and, with
/// --tag-output, puts
/// "[jobid,rank]<stdout>:" (Open MPI 5: and a blank, which is `tag_end`) before each line and before each
/// piece that goes on in the middle of one; so a tag within a line switches to another rank's line. Without
/// tags (a single rank, mpirun's own words) lines have no rank. Lines over `max_record_bytes` are cut there.
/// A carriage return ends a line, too: progress bars have no other end. "\r\n" is one end.
/// Unfinished lines of more than `max_other_output_bytes` together are an Error(protocol).
class RankOutputSplitter {
 public:
  explicit RankOutputSplitter(std::string_view tag_end = ":") : tag_end_(tag_end) {}
  /// Whole lines that these bytes complete are handed out in order. `t_ns`: when the bytes came.
  void feed(std::string_view bytes, const std::function<void(RankLine)>& on_line, std::int64_t t_ns = 0);
  /// Unfinished lines, at the end of the output.
  void finish(const std::function<void(RankLine)>& on_line);

 private:
  void add(std::string_view text);
  void take_piece(std::string_view piece, bool ends_line, const std::function<void(RankLine)>& on_line);

  std::string_view tag_end_;
  std::size_t held_bytes_ = 0;  ///< of partial_, with a charge for each entry
  std::string pending_;         ///< bytes that could be the beginning of a tag
  struct Partial {
    std::string text;
    std::int64_t t_ns = 0;
  };
  std::map<std::int64_t, Partial> partial_;  ///< by rank; -1: untagged
  std::set<std::int64_t> returned_;          ///< whose line a carriage return has ended
  std::int64_t current_ = -1, t_ns_ = 0;
};

/// One rank as its own records describe it. Times are on the coordinator's clock.
struct RankState {
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Ready> ready;
  std::optional<protocol::Result> result;
  struct Window {
    std::int64_t t_ns = 0;  ///< end
    std::int64_t step = 0;
    std::int64_t images = 0;
    double seconds = 0;
    std::optional<double> loss;
    std::int64_t received_ns = 0;  ///< when we heard of it, which no clock of the node's can change
  };
  std::vector<Window> samples;
  std::vector<Window> later;                   ///< single steps after the counted ones
  std::optional<std::int64_t> warmed_up_ns;    ///< when we heard of its latest warm-up step
  std::optional<std::int64_t> first_start_ns;  ///< when its first step (warm-up or counted) began
  std::size_t node = 0;                        ///< index in the job's nodes
  std::int64_t warmups = 0;                    ///< records of warm-up steps
  std::size_t unplanned_bytes = 0;             ///< of its records whose number the plan does not say
};

}  // namespace virtrain::harness
