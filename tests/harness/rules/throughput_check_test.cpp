#include "harness/rules/throughput_check.h"

#include "tests/support/catch.h"

using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000, released = 100 * second_ns;
constexpr int samples = 10;
constexpr std::int64_t images = 64;

/// 64 images every 2 s for 20 s, after 5 s of warm-up: 32 images/s.
RankState honest() {
  RankState rank;
  rank.result = virtrain::protocol::Result{.images_per_second = 32};
  rank.warmed_up_ns = released + 5 * second_ns;
  for (int i = 1; i <= samples; ++i) {
    RankState::Window sample;
    sample.received_ns = *rank.warmed_up_ns + 2 * i * second_ns;
    sample.t_ns = sample.received_ns - 3'000'000;
    sample.step = i;
    sample.images = images;
    sample.seconds = 2;
    rank.samples.push_back(sample);
  }
  return rank;
}

using Doubts = std::vector<std::string>;

Doubts doubts_of(const RankState& rank) {
  return throughput_doubts(rank, samples * images, released);
}

template <typename Change>
Doubts after(Change change) {
  auto rank = honest();
  change(rank);
  return doubts_of(rank);
}

}  // namespace

TEST_CASE("an honest rank is believed, also when its samples come in fits") {
  CHECK(doubts_of(honest()).empty());
  CHECK(after([](RankState& r) { r.warmed_up_ns.reset(); }).empty());
  CHECK(after([](RankState& r) { r.samples[4].received_ns += second_ns; }).empty());
  CHECK(after([](RankState& r) { r.result->images_per_second = 32.1; }).empty());
  CHECK(after([](RankState& r) {
          for (auto& sample : r.samples) { sample.received_ns += 1'500'000'000; }
        }).empty());
}

TEST_CASE("samples that waited for this process to read them are believed, and no later ones") {
  auto rank = honest();
  rank.samples.back().received_ns += 30 * second_ns;
  CHECK(doubts_of(rank).size() == 2);
  CHECK(throughput_doubts(rank, samples * images, released, 30).empty());
  CHECK(throughput_doubts(rank, samples * images, released, 15).size() == 2);
}

TEST_CASE("row 17: a speed that the samples do not show is a lie, with both figures") {
  CHECK(after([](RankState& r) { r.result->images_per_second = 1e308; }) ==
        Doubts{"says 1e+308 images/s where its samples show 32"});
  CHECK(after([](RankState& r) { r.result->images_per_second = 33.0; }) ==
        Doubts{"says 33 images/s where its samples show 32"});
  CHECK(after([](RankState& r) { r.result->images_per_second = 1e-300; }).size() == 1);
  CHECK(after([](RankState& r) { r.samples.clear(); }) == Doubts{"shows no sample of its work"});
}

TEST_CASE("images are counted as they were planned") {
  CHECK(after([](RankState& r) {
          for (auto& sample : r.samples) { sample.images *= 2; }
          r.result->images_per_second = 64.0;
        }) == Doubts{"counts 1280 images where 640 were planned"});
  CHECK(after([](RankState& r) { r.samples.pop_back(); }) ==
        Doubts{"counts 576 images where 640 were planned"});
}

TEST_CASE("our own clock has the last word on how long it took") {
  const auto ten_times_as_fast = [](RankState& r) {
    for (auto& sample : r.samples) { sample.seconds = 0.2; }
    r.result->images_per_second = 320.0;
  };
  CHECK(after(ten_times_as_fast) ==
        Doubts{"says its samples took 2 s where they came over 20 s of the host's clock"});
  CHECK(after([&](RankState& r) { ten_times_as_fast(r), r.warmed_up_ns.reset(); }) ==
        Doubts{"says its samples took 1.8 s where they came over 18 s of the host's clock"});
  CHECK(after([](RankState& r) {
          for (auto& sample : r.samples) { sample.seconds = 4; }
          r.result->images_per_second = 16.0;
        }) == Doubts{"says its samples took 40 s where they came over 20 s of the host's clock"});
  // All in one sample, and no word of the warm-up before it.
  CHECK(after([](RankState& r) {
          r.warmed_up_ns.reset();
          r.samples.erase(r.samples.begin(), r.samples.end() - 1);
          r.samples[0].images = samples * images;
          r.samples[0].seconds = 1000;
          r.result->images_per_second = 0.64;
        }) == Doubts{"says its samples took 1000 s where the host's clock counts 25 s since the barrier"});
}

TEST_CASE("samples of another time are no samples of this trial") {
  CHECK(after([](RankState& r) { r.samples[3].t_ns -= 60 * second_ns; }) ==
        Doubts{"dates a sample 60.003 s before the host's clock"});
  CHECK(after([](RankState& r) { r.samples[3].t_ns += 60 * second_ns; }) ==
        Doubts{"dates a sample 59.997 s after the host's clock"});
}
