#include "workloads/probe/sweep.h"

#include "common/time.h"

#include <algorithm>
#include <functional>
#include <span>

namespace virtrain::probe {
namespace {

constexpr int root = 0;
constexpr float poison = -1;

/// What rank `rank` puts in at place i: small whole numbers, so that sums of floats are exact in any order.
float pattern(std::uint64_t i, int rank, int salt) {
  return static_cast<float>(
      (i * 31 + static_cast<std::uint64_t>(rank) * 17 + static_cast<std::uint64_t>(salt)) % 251);
}

float sum_of_patterns(std::uint64_t i, int ranks, int salt) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += pattern(i, rank, salt);
  return sum;
}

/// Buffers of one rank, and the operation on them.
class Operation {
 public:
  Operation(Collective collective, Peers& peers, std::uint64_t bytes)
      : collective_(collective), peers_(peers), ranks_(static_cast<std::uint64_t>(peers.size())) {
    const std::uint64_t elements = bytes / sizeof(float);
    count_ = std::max<std::uint64_t>(1, collective == Collective::all_gather ? elements / ranks_ : elements);
    received_ = collective == Collective::all_gather ? count_ * ranks_ : count_;
    send_.resize(count_);
    receive_.resize(received_);
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t size_bytes() const { return received_ * sizeof(float); }

  /// Fresh input, and no trace of earlier output.
  void fill(bool in_place, int salt) {
    std::fill(receive_.begin(), receive_.end(), poison);
    const std::span<float> input = in_place ? own_part() : std::span<float>(send_);
    for (std::uint64_t i = 0; i < count_; ++i) input[i] = pattern(i, peers_.rank(), salt);
  }

  void run(bool in_place) {
    const std::span<const float> input = in_place ? own_part() : std::span<float>(send_);
    switch (collective_) {
      case Collective::all_reduce:
        peers_.all_reduce(input, receive_);
        break;
      case Collective::all_gather:
        peers_.all_gather(input, receive_);
        break;
      case Collective::broadcast:
        peers_.broadcast(receive_, root);
        break;
    }
  }

  std::int64_t wrong(int salt) const {
    std::int64_t wrong = 0;
    for (std::uint64_t i = 0; i < received_; ++i) wrong += receive_[i] != expected(i, salt) ? 1 : 0;
    return wrong;
  }

 private:
  /// Where our input lies in the output of an operation in place.
  std::span<float> own_part() {
    const std::uint64_t offset =
        collective_ == Collective::all_gather ? count_ * static_cast<std::uint64_t>(peers_.rank()) : 0;
    return std::span<float>(receive_).subspan(offset, count_);
  }

  float expected(std::uint64_t i, int salt) const {
    switch (collective_) {
      case Collective::all_reduce:
        return sum_of_patterns(i, peers_.size(), salt);
      case Collective::all_gather:
        return pattern(i % count_, static_cast<int>(i / count_), salt);
      case Collective::broadcast:
        return pattern(i, root, salt);
    }
    return poison;
  }

  Collective collective_;
  Peers& peers_;
  std::uint64_t ranks_;
  std::uint64_t count_ = 0;
  std::uint64_t received_ = 0;
  std::vector<float> send_;
  std::vector<float> receive_;
};

Side measure_side(Operation& operation, Peers& peers, bool in_place, const Repetitions& repetitions) {
  operation.fill(in_place, 1);
  for (int k = 0; k < repetitions.warmup; ++k) operation.run(in_place);
  peers.barrier();
  const std::int64_t start_ns = monotonic_ns();
  for (int k = 0; k < repetitions.counted; ++k) operation.run(in_place);
  const double elapsed = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  constexpr int salt = 2;
  operation.fill(in_place, salt);
  operation.run(in_place);
  return {peers.largest(elapsed) / repetitions.counted, peers.total(operation.wrong(salt))};
}

}  // namespace

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
  }
  return "?";
}

std::optional<Collective> parse_collective(const std::string& name) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
    if (name == to_string(collective)) return collective;
  }
  return std::nullopt;
}

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

SweepLine measure(Collective collective, Peers& peers, std::uint64_t bytes, const Repetitions& repetitions) {
  Operation operation(collective, peers, bytes);
  SweepLine line;
  line.collective = collective;
  line.ranks = peers.size();
  line.size_bytes = operation.size_bytes();
  line.count = operation.count();
  if (collective != Collective::broadcast) {
    line.out_of_place = measure_side(operation, peers, false, repetitions);
  }
  line.in_place = measure_side(operation, peers, true, repetitions);
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
    if (line.collective == Collective::all_reduce) figure.detail["operation"] = "sum";
    if (line.collective == Collective::broadcast) figure.detail["root"] = root;
    found.push_back(figure);
  };
  if (line.out_of_place) add(*line.out_of_place, false);
  add(line.in_place, true);
  return found;
}

}  // namespace virtrain::probe
