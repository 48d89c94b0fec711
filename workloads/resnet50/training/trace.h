#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::resnet50 {

/// Steps whose timeline a trace holds: enough to see the pattern, few enough for a viewer.
inline constexpr int traced_steps = 20;

/// Something that a rank did, on the clock of the samples (monotonic_ns).
struct Span {
  enum class Kind { compute, communication };
  Kind kind = Kind::compute;
  std::string name;  ///< "forward", "all-reduce 3"
  int step = 0;      ///< counted steps from 1
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// Collects a rank's spans, if they are asked for at all, of its first counted steps.
class Timeline {
 public:
  explicit Timeline(bool wanted) : wanted_(wanted) {}
  /// Spans from now on are of this step; 0: of none that counts.
  void begin_step(int step) { step_ = step; }
  bool is_on() const { return wanted_ && step_ > 0 && step_ <= traced_steps; }
  void add(Span::Kind kind, const std::string& name, std::int64_t begin_ns, std::int64_t end_ns) {
    if (is_on()) { spans_.push_back({kind, name, step_, begin_ns, end_ns}); }
  }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  bool wanted_;
  int step_ = 0;
  std::vector<Span> spans_;
};

/// Time in which a rank communicated, and the part of it in which it computed nothing, in nanoseconds. Spans
/// may overlap: each moment counts once.
struct Exposure {
  std::int64_t communication_ns = 0;
  std::int64_t exposed_ns = 0;
};
Exposure exposure(const std::vector<Span>& spans);

/// A rank's timeline in Chrome's trace event format (chrome://tracing, ui.perfetto.dev): an object with
/// "traceEvents", the rank as process; computing, communication, and the moments of it in which nothing was
/// computed, as its threads; times in microseconds.
/// "otherData" has the rank and, over all steps, milliseconds of communication and of its exposed part.
std::string trace_json(const std::vector<Span>& spans, int rank);

/// Where a rank writes its trace: FILE as it is for a rank that is alone, else FILE.json becomes FILE.3.json.
std::string trace_path(const std::string& file, int rank, int size);

/// Throws Error(io) if the file cannot be written.
void write_trace(const std::string& path, const std::vector<Span>& spans, int rank);

}  // namespace virtrain::resnet50
