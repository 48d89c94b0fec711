#include "workloads/probe/ranks/sweep.h"

#include <algorithm>
#include <vector>

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

}  // namespace

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

}  // namespace virtrain::probe
