#include "workloads/probe/ranks/round_trip.h"

#include <algorithm>
#include <vector>

#include "common/system/time.h"

namespace virtrain::probe {

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

}  // namespace virtrain::probe
