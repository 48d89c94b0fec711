#include "workloads/probe/ranks/nccl_table.h"

#include <fmt/format.h>

#include "common/version.h"

namespace virtrain::probe {
namespace {

std::string side_columns(const SweepLine& line, const std::optional<Side>& side) {
  if (!side) { return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A"); }
  return fmt::format("  {}  {}  {}  {:>6}", fitted_number(side->seconds * 1e6, 7),
                     fitted_number(line.algorithm_bandwidth(*side) * 1e-9, 6),
                     fitted_number(line.bus_bandwidth(*side) * 1e-9, 6), side->wrong);
}

}  // namespace

std::string fitted_number(double value, int width) {
  int digits = 0;
  for (std::uint64_t power = 1; value >= static_cast<double>(power); power *= 10) { ++digits; }
  if (digits < width - 2) { return fmt::format("{:{}.2f}", value, width); }
  if (digits < width - 1) { return fmt::format("{:{}.1f}", value, width); }
  if (digits < width + 1) { return fmt::format("{:{}.0f}", value, width); }
  return width >= 7 ? fmt::format("{:{}.1e}", value, width) : fmt::format("{:{}.0e}", value, width);
}

std::string nccl_preamble(const SweepSetting& setting) {
  std::string text = fmt::format(
      "# virtrain-probe {} over {}, nccl-tests' columns\n# Collective test starting: {}_perf\n"
      "# nThread 1 nGpus 0 minBytes {} maxBytes {} step: {}(factor) warmup iters: {} iters: {} agg iters: 1 "
      "validation: 1 graph: 0\n#\n# Using devices\n",
      virtrain_version, setting.library, to_string(setting.collective), setting.min_bytes, setting.max_bytes,
      setting.factor, setting.repetitions.warmup, setting.repetitions.counted);
  for (std::size_t rank = 0; rank < setting.processes.size(); ++rank) {
    text += fmt::format("#  Rank {:>2} Group  0 Pid {:>6} on {:>10} device {}\n", rank,
                        setting.processes[rank].pid, setting.processes[rank].host,
                        setting.processes[rank].device);
  }
  return text +
         "#\n"
         "#                                                              out-of-place                       "
         "in-place          \n"
         "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
         "algbw "
         "  busbw  #wrong \n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  "
         "(GB/s) "
         " (GB/s)         \n";
}

std::string nccl_line(const SweepLine& line) {
  const char* const operation = line.collective == Collective::all_reduce ? "sum" : "none";
  const int root = line.collective == Collective::broadcast ? broadcast_root : -1;
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", line.size_bytes, line.count, "float", operation,
                     root) +
         side_columns(line, line.out_of_place) + side_columns(line, line.in_place) + "\n";
}

std::string nccl_conclusion(Collective collective, const std::vector<SweepLine>& lines) {
  std::int64_t wrong = 0;
  double sum = 0;
  int sides = 0;
  for (const SweepLine& line : lines) {
    for (const std::optional<Side>& side : {line.out_of_place, std::optional<Side>(line.in_place)}) {
      if (!side) { continue; }
      wrong += side->wrong;
      sum += line.bus_bandwidth(*side) * 1e-9;
      ++sides;
    }
  }
  return fmt::format(
      "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} \n#\n# Collective test concluded: "
      "{}_perf\n#\n",
      wrong, wrong == 0 ? "OK" : "FAILED", sides == 0 ? 0 : sum / sides, to_string(collective));
}

}  // namespace virtrain::probe
