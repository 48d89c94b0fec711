#include "workloads/probe/sweep.h"

#include "tests/support/catch.h"
#include "tests/workloads/common/peers/thread_peers.h"
#include "workloads/common/peers/peers.h"

using namespace virtrain;
using namespace virtrain::probe;
using virtrain::test::Job;
using virtrain::test::on_all;
using virtrain::test::ThreadPeers;

namespace {

SweepLine measured(Job& job, Collective collective, std::uint64_t bytes) {
  return on_all<SweepLine>(job, [&](Peers& peers) {
    return measure(collective, *make_host_exchange(peers), peers, bytes, {1, 2});
  });
}

/// Buffers of its own, as a GPU's are: what is not taken and given back never arrives. Its broadcast goes out
/// of place, as NCCL's does.
class DistantExchange : public Exchange {
 public:
  explicit DistantExchange(Peers& peers) : peers_(peers) {}
  std::string library() const override { return "a test"; }
  std::string device() const override { return "0"; }
  bool goes_out_of_place(Collective /*collective*/) const override { return true; }
  void take(std::span<const float> send, std::span<float> receive) override {
    send_.assign(send.begin(), send.end());
    receive_.assign(receive.begin(), receive.end());
    to_ = receive;
  }
  double run(Collective collective, bool in_place, int times) override {
    const auto own = std::span<const float>(receive_).subspan(
        collective == Collective::all_gather ? send_.size() * static_cast<std::size_t>(peers_.rank()) : 0,
        send_.size());
    for (int k = 0; k < times; ++k) {
      const std::span<const float> input = in_place ? own : std::span<const float>(send_);
      if (collective == Collective::all_reduce) { peers_.all_reduce(input, receive_); }
      if (collective == Collective::all_gather) { peers_.all_gather(input, receive_); }
      if (collective != Collective::broadcast) { continue; }
      if (!in_place && peers_.rank() == broadcast_root) { receive_.assign(send_.begin(), send_.end()); }
      peers_.broadcast(std::span<float>(receive_), broadcast_root);
    }
    return 0.001 * times * (1 + peers_.rank());  // rank 2 of 3 is the slowest: 3 ms each
  }
  void give_back() override { std::copy(receive_.begin(), receive_.end(), to_.begin()); }

 private:
  Peers& peers_;
  std::vector<float> send_, receive_;
  std::span<float> to_;
};

constexpr Collective all[] = {Collective::all_reduce, Collective::all_gather, Collective::broadcast};

}  // namespace

TEST_CASE("bus bandwidth follows nccl-tests' doc/PERFORMANCE.md") {
  // n ranks: all-reduce 2 (n - 1) / n, all-gather (n - 1) / n, broadcast 1
  CHECK(bus_factor(Collective::all_reduce, 2) == Approx(1.0));
  CHECK(bus_factor(Collective::all_reduce, 4) == Approx(1.5));
  CHECK(bus_factor(Collective::all_reduce, 8) == Approx(1.75));
  CHECK(bus_factor(Collective::all_gather, 2) == Approx(0.5));
  CHECK(bus_factor(Collective::all_gather, 8) == Approx(0.875));
  CHECK(bus_factor(Collective::broadcast, 8) == Approx(1.0));
  SweepLine line;
  line.ranks = 4;
  line.size_bytes = 1'000'000;
  const Side side{0.001, 0};
  CHECK(line.algorithm_bandwidth(side) == Approx(1e9));
  CHECK(line.bus_bandwidth(side) == Approx(1.5e9));
}

TEST_CASE("right data counts as right, on any number of ranks and for odd sizes") {
  for (const int ranks : {2, 3, 5}) {
    for (const Collective collective : all) {
      for (const std::uint64_t bytes : {4U, 8U, 1020U, 40004U}) {
        CAPTURE(ranks, to_string(collective), bytes);
        Job job(ranks);
        const SweepLine line = measured(job, collective, bytes);
        CHECK(line.in_place.wrong == 0);
        CHECK(line.in_place.seconds > 0);
        CHECK(line.out_of_place.has_value() == (collective != Collective::broadcast));
        if (line.out_of_place) { CHECK(line.out_of_place->wrong == 0); }
        CHECK(line.size_bytes == line.count * 4 * (collective == Collective::all_gather ? ranks : 1));
      }
    }
  }
}

TEST_CASE("buffers elsewhere are filled, timed by the slowest rank and checked") {
  for (const Collective collective : all) {
    for (const std::uint64_t bytes : {4U, 1020U}) {
      CAPTURE(to_string(collective), bytes);
      Job job(3);
      const auto sweep = [&] {
        return on_all<SweepLine>(job, [&](Peers& peers) {
          DistantExchange exchange(peers);
          return measure(collective, exchange, peers, bytes, {1, 2});
        });
      };
      SweepLine line = sweep();
      REQUIRE(line.out_of_place);
      CHECK(line.out_of_place->wrong == 0);
      CHECK(line.in_place.wrong == 0);
      CHECK(line.in_place.seconds == Approx(0.003));
      job.fault = [](int rank, std::span<float> output) {
        if (rank == 1) { output[0] += 1; }
      };
      line = sweep();
      CHECK(line.out_of_place->wrong == 1);
      CHECK(line.in_place.wrong == 1);
    }
  }
}

TEST_CASE("a GPU that is alone has the bus bandwidth that nccl-tests gives it") {
  LonePeer alone;
  DistantExchange exchange(alone);
  const SweepLine line = measure(Collective::all_reduce, exchange, alone, 4096, {0, 2});
  CHECK(line.in_place.wrong == 0);
  CHECK(line.algorithm_bandwidth(line.in_place) == Approx(4096 / 0.001));
  CHECK(line.bus_bandwidth(line.in_place) == 0);  // 2 (n - 1) / n: nothing goes over a bus
  CHECK(measure(Collective::broadcast, exchange, alone, 4096, {0, 1}).out_of_place->wrong == 0);
}

TEST_CASE("one wrong element on one rank is counted") {
  for (const Collective collective : all) {
    CAPTURE(to_string(collective));
    Job job(3);
    job.fault = [](int rank, std::span<float> output) {
      if (rank == 2) { output[output.size() - 1] += 1; }
    };
    const SweepLine line = measured(job, collective, 4096);
    CHECK(line.in_place.wrong == 1);
    if (line.out_of_place) { CHECK(line.out_of_place->wrong == 1); }
    CHECK(figures(line).back().wrong == 1);
  }
}

TEST_CASE("an operation that leaves a part undone, or does nothing, is seen") {
  for (const Collective collective : all) {
    CAPTURE(to_string(collective));
    Job job(2);
    job.fault = [](int rank, std::span<float> output) {
      if (rank == 1) {
        std::fill(output.begin() + 10, output.begin() + 20, -1.0F);  // as before the operation
      }
    };
    CHECK(measured(job, collective, 4096).in_place.wrong == 10);
  }
  // A rank that thinks it is alone: nothing is added up or gathered.
  struct Alone : LonePeer {
    int size() const override { return 2; }
  } alone;
  const auto exchange = make_host_exchange(alone);
  CHECK(measure(Collective::all_reduce, *exchange, alone, 400, {0, 1}).out_of_place->wrong > 90);
  CHECK(measure(Collective::all_gather, *exchange, alone, 400, {0, 1}).out_of_place->wrong == 50);
}

TEST_CASE("figures carry the record's fields") {
  Job job(2);
  const std::vector<Figure> found = figures(measured(job, Collective::all_reduce, 4096));
  REQUIRE(found.size() == 2);
  const nlohmann::json record = to_json(found[0]);
  CHECK(record["name"] == "all_reduce");
  CHECK(record["data_type"] == "float");
  CHECK(record["ranks"] == 2);
  CHECK(record["size_bytes"] == 4096);
  CHECK(record["unit"] == "B/s");
  CHECK(record["value"].get<double>() == Approx(4096 / record["seconds"].get<double>()));
  CHECK(record["bus_bytes_per_second"] == record["value"]);  // two ranks: the factor is 1
  CHECK(record["wrong"] == 0);
  CHECK(record["detail"]["in_place"] == false);
  CHECK(found[1].detail["in_place"] == true);
}

TEST_CASE("a round trip is timed and its answer checked") {
  const auto figure = [](int answer_plus) {
    Job job(3);  // the third rank only watches
    return on_all<Figure>(job, [&](Peers& peers) {
      dynamic_cast<ThreadPeers&>(peers).answer_plus = answer_plus;
      return measure_round_trip(peers, 300, 1, 5);
    });
  };
  const Figure right = figure(1);
  CHECK(right.wrong == 0);
  CHECK(right.unit == "s");
  CHECK(right.value > 0);
  CHECK(right.detail["minimum_seconds"].get<double>() <= right.value);
  CHECK(figure(0).wrong == 1800);
}
