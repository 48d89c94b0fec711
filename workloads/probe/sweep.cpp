#include "workloads/probe/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/system/time.h"
#include "common/version.h"

namespace virtrain::probe {
namespace {

constexpr float poison = -1;

/// The value that rank `rank` puts in at place i: small whole numbers, so that sums of floats are exact in
/// any order.
float pattern(std::uint64_t i, int rank, int salt) {
  return static_cast<float>(
      (i * 31 + static_cast<std::uint64_t>(rank) * 17 + static_cast<std::uint64_t>(salt)) % 251);
}

float sum_of_patterns(std::uint64_t i, int ranks, int salt) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) { sum += pattern(i, rank, salt); }
  return sum;
}

/// The input and the expected output of one rank.
class Operation {
 public:
  Operation(Collective collective, const Peers& peers, std::uint64_t bytes)
      : collective_(collective), rank_(peers.rank()), ranks_(peers.size()) {
    const std::uint64_t elements = bytes / sizeof(float);
    const bool gathers = collective == Collective::all_gather;
    const auto parts = static_cast<std::uint64_t>(gathers ? ranks_ : 1);
    send_.resize(std::max<std::uint64_t>(1, elements / parts));
    receive_.resize(send_.size() * parts);
  }

  std::uint64_t count() const { return send_.size(); }
  std::uint64_t size_bytes() const { return receive_.size() * sizeof(float); }

  /// Hands over fresh input, and no trace of earlier output.
  void fill(Exchange& exchange, bool in_place, int salt) {
    std::fill(send_.begin(), send_.end(), poison);
    std::fill(receive_.begin(), receive_.end(), poison);
    float* const input = in_place ? receive_.data() + own_part() : send_.data();
    for (std::uint64_t i = 0; i < count(); ++i) { input[i] = pattern(i, rank_, salt); }
    exchange.take(send_, receive_);
  }

  std::int64_t wrong(int salt) const {
    std::int64_t wrong = 0;
    for (std::uint64_t i = 0; i < receive_.size(); ++i) { wrong += receive_[i] != expected(i, salt) ? 1 : 0; }
    return wrong;
  }

 private:
  /// Where our input lies in the output of an operation in place.
  std::uint64_t own_part() const {
    return collective_ == Collective::all_gather ? count() * static_cast<std::uint64_t>(rank_) : 0;
  }

  float expected(std::uint64_t i, int salt) const {
    switch (collective_) {
      case Collective::all_reduce:
        return sum_of_patterns(i, ranks_, salt);
      case Collective::all_gather:
        return pattern(i % count(), static_cast<int>(i / count()), salt);
      case Collective::broadcast:
        return pattern(i, broadcast_root, salt);
    }
    return poison;
  }

  Collective collective_;
  int rank_;
  int ranks_;
  std::vector<float> send_;
  std::vector<float> receive_;
};

Side measure_side(Operation& operation, Exchange& exchange, Peers& peers, Collective collective,
                  bool in_place, const Repetitions& repetitions) {
  operation.fill(exchange, in_place, 1);
  exchange.run(collective, in_place, repetitions.warmup);
  peers.barrier();
  const double elapsed = exchange.run(collective, in_place, repetitions.counted);
  constexpr int salt = 2;
  operation.fill(exchange, in_place, salt);
  exchange.run(collective, in_place, 1);
  exchange.give_back();
  return {peers.largest(elapsed) / repetitions.counted, peers.total(operation.wrong(salt))};
}

std::string side_columns(const SweepLine& line, const std::optional<Side>& side) {
  if (!side) { return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A"); }
  return fmt::format("  {}  {}  {}  {:>6}", fitted_number(side->seconds * 1e6, 7),
                     fitted_number(line.algorithm_bandwidth(*side) * 1e-9, 6),
                     fitted_number(line.bus_bandwidth(*side) * 1e-9, 6), side->wrong);
}

}  // namespace

double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * share;
    case Collective::all_gather:
      return share;
    case Collective::broadcast:
      return 1;
  }
  return 1;
}

double SweepLine::algorithm_bandwidth(const Side& side) const {
  return side.seconds > 0 ? static_cast<double>(size_bytes) / side.seconds : 0;
}

double SweepLine::bus_bandwidth(const Side& side) const {
  return algorithm_bandwidth(side) * bus_factor(collective, ranks);
}

SweepLine measure(Collective collective, Exchange& exchange, Peers& peers, std::uint64_t bytes,
                  const Repetitions& repetitions) {
  Operation operation(collective, peers, bytes);
  SweepLine line;
  line.collective = collective;
  line.ranks = peers.size();
  line.size_bytes = operation.size_bytes();
  line.count = operation.count();
  const auto side = [&](bool in_place) {
    return measure_side(operation, exchange, peers, collective, in_place, repetitions);
  };
  if (exchange.goes_out_of_place(collective)) { line.out_of_place = side(false); }
  line.in_place = side(true);
  return line;
}

std::vector<Figure> figures(const SweepLine& line) {
  std::vector<Figure> found;
  const auto add = [&](const Side& side, bool in_place) {
    Figure figure;
    figure.name = to_string(line.collective);
    figure.data_type = "float";
    figure.ranks = line.ranks;
    figure.size_bytes = line.size_bytes;
    figure.seconds = side.seconds;
    figure.value = line.algorithm_bandwidth(side);
    figure.unit = "B/s";
    figure.bus_bytes_per_second = line.bus_bandwidth(side);
    figure.wrong = side.wrong;
    figure.detail = {{"count", line.count}, {"in_place", in_place}};
    if (line.collective == Collective::all_reduce) { figure.detail["operation"] = "sum"; }
    if (line.collective == Collective::broadcast) { figure.detail["root"] = broadcast_root; }
    found.push_back(figure);
  };
  if (line.out_of_place) { add(*line.out_of_place, false); }
  add(line.in_place, true);
  return found;
}

Figure measure_round_trip(Peers& peers, std::uint64_t bytes, int warmup, int counted) {
  std::vector<unsigned char> message(bytes);
  std::vector<double> seconds;
  std::int64_t wrong = 0;
  peers.barrier();
  for (int k = 0; k < warmup + counted; ++k) {
    const auto sent = [k](std::size_t i) {
      return static_cast<unsigned char>(i + static_cast<std::size_t>(k));
    };
    for (std::size_t i = 0; i < message.size(); ++i) { message[i] = sent(i); }
    const std::int64_t start_ns = monotonic_ns();
    peers.round_trip(message);
    if (k >= warmup) { seconds.push_back(static_cast<double>(monotonic_ns() - start_ns) * 1e-9); }
    if (peers.rank() != 0) { continue; }
    for (std::size_t i = 0; i < message.size(); ++i) {
      wrong += message[i] != static_cast<unsigned char>(sent(i) + 1) ? 1 : 0;
    }
  }
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  Figure figure;
  figure.name = "round_trip";
  figure.where = "ranks 0, 1";
  figure.data_type = "byte";
  figure.ranks = 2;
  figure.size_bytes = bytes;
  figure.value = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  figure.seconds = figure.value;
  figure.unit = "s";
  figure.wrong = peers.total(wrong);
  figure.detail = {{"minimum_seconds", seconds.front()}, {"round_trips", counted}};
  return figure;
}

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
