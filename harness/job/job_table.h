#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/job.h"
#include "harness/evidence/job_output.h"
#include "results/store/records.h"

// Figures of programs that print a table once, which only its end tells from a part of it.

namespace virtrain::harness {

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

}  // namespace virtrain::harness
