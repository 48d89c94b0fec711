#include "results/comparison/causes/predict.h"

#include <cmath>
#include <functional>
#include <random>

#include "results/comparison/compare_json.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

constexpr double gradient_bytes = 25'557'032.0 * 4;

/// The truth that data is made from; times in seconds.
struct Truth {
  double one_step = 0.4;
  double latency = 0;
  double bandwidth = 1e30;
  double overlap = 0;
  double images_per_step = 128;

  double all_reduce(double nodes, double bytes = gradient_bytes) const {
    return 2 * (nodes - 1) * latency + 2 * (nodes - 1) / nodes * bytes / bandwidth;
  }
  double throughput(double nodes) const {
    return nodes * images_per_step / (one_step + std::max(0.0, all_reduce(nodes) - overlap));
  }
};

ScalingEvidence measured(const std::function<double(double)>& throughput,
                         const std::vector<std::int64_t>& sizes, int runs = 1) {
  ScalingEvidence evidence;
  evidence.images_per_step = 128;
  for (const auto nodes : sizes) {
    for (int run = 0; run < runs; ++run) {
      evidence.runs.push_back({nodes, throughput(static_cast<double>(nodes))});
    }
  }
  return evidence;
}

void add_sweep(const Truth& truth, ScalingEvidence& evidence) {
  for (const std::int64_t ranks : {2, 4}) {
    for (std::int64_t size = 4096; size < 300'000'000; size *= 8) {
      const auto bytes = static_cast<double>(size);
      evidence.probes.push_back({ranks, bytes, truth.all_reduce(static_cast<double>(ranks), bytes)});
    }
  }
}

const PredictedPoint& at(const Prediction& prediction, std::int64_t nodes) {
  for (const auto& point : prediction.points) {
    if (point.nodes == nodes) { return point; }
  }
  FAIL("no point for " << nodes << " nodes");
  return prediction.points.front();
}

const std::vector<std::int64_t> beyond = {8, 64, 1024};

}  // namespace

TEST_CASE("data that the model made gives its parameters back, without probes") {
  const Truth truth{.latency = 1e-3, .bandwidth = 5e9};
  const auto evidence = measured([&](double n) { return truth.throughput(n); }, {1, 2, 4});
  const auto found = predict(evidence, beyond);
  CHECK(found.fitted_on == "runs");
  CHECK(found.step_seconds.value() == Approx(0.4).epsilon(1e-9));
  CHECK(found.latency_seconds.value() == Approx(1e-3).epsilon(1e-6));
  CHECK(found.bytes_per_second.value() == Approx(5e9).epsilon(1e-6));
  CHECK_FALSE(found.overlap_seconds);
  CHECK_FALSE(found.outside_model);
  for (const auto nodes : beyond) {
    const auto& point = at(found, nodes);
    CHECK(point.predicted == Approx(truth.throughput(static_cast<double>(nodes))).epsilon(1e-6));
    CHECK(point.bound->low < point.predicted);
    CHECK(point.bound->high > point.predicted);
    CHECK(point.bound->high <= point.ideal);
    CHECK_FALSE(point.measured);
  }
  CHECK(at(found, 4).measured.value() == Approx(truth.throughput(4)));
  CHECK(at(found, 1).predicted == Approx(truth.throughput(1)));
}

TEST_CASE("probes and runs together give latency, bandwidth and overlap back") {
  const Truth truth{.latency = 2e-5, .bandwidth = 2e9, .overlap = 0.03};
  auto evidence = measured([&](double n) { return truth.throughput(n); }, {1, 2, 4, 8});
  add_sweep(truth, evidence);
  const auto found = predict(evidence, beyond);
  CHECK(found.fitted_on == "probes_and_runs");
  CHECK(found.latency_seconds.value() == Approx(2e-5).epsilon(1e-6));
  CHECK(found.bytes_per_second.value() == Approx(2e9).epsilon(1e-6));
  CHECK(found.overlap_seconds.value() == Approx(0.03).epsilon(1e-6));
  CHECK(found.worst_held_out_error.value() < 1e-6);
  for (const auto nodes : beyond) {
    const auto& point = at(found, nodes);
    const double real = truth.throughput(static_cast<double>(nodes));
    CHECK(point.predicted == Approx(real).epsilon(1e-6));
    CHECK(point.bound->low < real);
    CHECK(real < point.bound->high);
  }
}

TEST_CASE("the bandwidth bounds what any overlap can reach") {
  const Truth truth{.one_step = 0.01, .bandwidth = 1e9};
  auto evidence = measured([&](double n) { return truth.throughput(n); }, {1, 2});
  evidence.images_per_step = truth.images_per_step;
  add_sweep(truth, evidence);
  const auto found = predict(evidence, std::vector<std::int64_t>{64});
  // 2 · 63/64 · 102 MB at 1 GB/s take 0.2 s, twenty times the step.
  CHECK(at(found, 64).bound->high == Approx(64 * 128 / truth.all_reduce(64)).epsilon(1e-6));
  CHECK(at(found, 64).bound->high < at(found, 64).ideal);
}

TEST_CASE("a truth of another kind stays inside the bound") {
  const std::function<double(double)> truths[] = {
      [](double n) { return n * 128 / (0.4 + 0.02 * std::log2(n)); },          // a tree
      [](double n) { return n * 128 / (0.4 + (n > 1 ? 0.03 : 0.0)); },         // a constant
      [](double n) { return n * 128 / (0.4 + 0.01 * (n - 1)); },               // pure latency
      [](double n) { return n * 128 / (0.4 + 0.05 * (n - 1) / n); },           // pure bandwidth
      [](double n) { return n * 128 / (0.4 + 0.01 * std::pow(n - 1, 0.7)); },  // in between
  };
  for (std::size_t i = 0; i < std::size(truths); ++i) {
    CAPTURE(i);
    const auto found = predict(measured(truths[i], {1, 2, 4, 8}), beyond);
    for (const std::int64_t nodes : {64, 1024}) {
      const auto& point = at(found, nodes);
      const double real = truths[i](static_cast<double>(nodes));
      CAPTURE(nodes, real, point.bound->low, point.bound->high, found.outside_model);
      CHECK((found.outside_model ||
             (real >= point.bound->low * (1 - 1e-9) && real <= point.bound->high * (1 + 1e-9))));
    }
  }
}

TEST_CASE("what contradicts the model says so") {
  const auto congested = [](double n) { return n * 128 / (0.4 + 0.01 * (n - 1) * (n - 1)); };
  const auto found = predict(measured(congested, {1, 2, 4, 8}), beyond);
  CHECK(found.outside_model);
  CHECK_THAT(found.notes.back(), Contains("grows faster than that of a ring"));
  CHECK(found.worst_held_out_error.value() > 0.05);
  const auto miracle = [](double n) { return n * 128 / (n > 1 ? 0.3 : 0.4); };
  CHECK(predict(measured(miracle, {1, 2}), beyond).outside_model);
  // Probes of another network than the trainer's.
  const Truth slow{.bandwidth = 5e8};
  auto evidence = measured([&](double n) { return slow.throughput(n); }, {1, 2, 4});
  add_sweep(Truth{.bandwidth = 1e11}, evidence);
  const auto foreign = predict(evidence, beyond);
  CHECK(foreign.outside_model);
  CHECK_THAT(foreign.notes.back(), Contains("outside the bound"));
}

TEST_CASE("under noise the truth lies inside the bound") {
  const Truth truth{.latency = 1e-3, .bandwidth = 4e9};
  std::mt19937_64 random(21);
  std::normal_distribution<double> noise(0, 0.003);
  int inside = 0;
  const int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    const auto evidence =
        measured([&](double n) { return truth.throughput(n) * std::exp(noise(random)); }, {1, 2, 4, 8}, 4);
    const auto found = predict(evidence, std::vector<std::int64_t>{64});
    const auto& point = at(found, 64);
    const double real = truth.throughput(64);
    inside += point.bound->low <= real && real <= point.bound->high ? 1 : 0;
  }
  CHECK(inside >= 0.95 * rounds);
}

TEST_CASE("few sizes are said to be few") {
  const Truth truth{.bandwidth = 5e9};
  const auto throughput = [&](double n) { return truth.throughput(n); };
  const auto one = predict(measured(throughput, {1, 2}), beyond);
  CHECK(one.fitted_on == "one_run");
  CHECK_FALSE(one.worst_held_out_error);
  CHECK_THAT(one.notes.front(), Contains("a prediction from one size assumes"));
  CHECK(at(one, 64).bound->low < at(one, 64).predicted);

  const auto nothing = predict(measured(throughput, {1}), beyond);
  CHECK(nothing.fitted_on == "nothing");
  CHECK_FALSE(at(nothing, 8).bound);
  CHECK(at(nothing, 8).predicted == Approx(8 * truth.throughput(1)));
  CHECK_THAT(nothing.notes.front(), Contains("only the ideal"));

  auto probed = measured(throughput, {1});
  add_sweep(truth, probed);
  const auto probes = predict(probed, beyond);
  CHECK(probes.fitted_on == "probes");
  CHECK(at(probes, 64).predicted == Approx(truth.throughput(64)).epsilon(1e-6));

  // Without the images of a step there are no seconds, and no use for probes; the fit is the same.
  probed = measured(throughput, {1, 2, 4});
  add_sweep(truth, probed);
  probed.images_per_step.reset();
  const auto relative = predict(probed, beyond);
  CHECK_FALSE(relative.step_seconds);
  CHECK(at(relative, 64).predicted == Approx(truth.throughput(64)).epsilon(1e-6));
  CHECK_THAT(relative.notes.front(), Contains("images of one step are not known"));
}

TEST_CASE("held-out sizes show what the model misses") {
  const auto bumpy = [](double n) { return n * 128 / (n == 4 ? 0.5 : n > 1 ? 0.42 : 0.4); };
  const auto found = predict(measured(bumpy, {1, 2, 4, 8}), {});
  CHECK(found.worst_held_out_error.value() > 0.1);
  CHECK(at(found, 4).held_out_error.value() > 0.1);  // predicted without the bump: too fast
  CHECK_FALSE(at(found, 1).held_out_error);
}

TEST_CASE("a prediction needs one node, throughputs and possible sizes") {
  const Truth truth;
  const auto throughput = [&](double n) { return truth.throughput(n); };
  CHECK_THROWS_WITH(predict(measured(throughput, {2, 4}), beyond), Contains("no run on one node"));
  CHECK_THROWS_WITH(predict(measured(throughput, {1}), std::vector<std::int64_t>{0}), Contains("0 nodes"));
  CHECK_THROWS_WITH(predict(measured([](double) { return 0.0; }, {1}), beyond), Contains("above zero"));
}

TEST_CASE("a first step that loses most is named, for what follows it says nothing of it") {
  const auto notes_of = [](const std::vector<double>& speeds) {
    ScalingEvidence evidence;
    std::int64_t nodes = 1;
    for (const double speed : speeds) {
      evidence.runs.push_back({nodes, speed});
      nodes *= 2;
    }
    std::string all;
    for (const auto& note : predict(evidence, beyond).notes) { all += note + "\n"; }
    return all;
  };
  CHECK_THAT(
      notes_of({2697.29, 2632.95, 4772.04, 9745.38}),
      Contains("the step from 1 to 2 nodes costs 51 % of the throughput of each node, all further ones to 8 "
               "nodes 4 %"));
  CHECK_THAT(notes_of({100, 60}), Contains("the step from 1 to 2 nodes costs 70 %"));
  CHECK_THAT(notes_of({100, 190, 360, 680}), !Contains("the step from"));  // each costs about as much
  CHECK_THAT(notes_of({100, 150, 200, 240}), !Contains("the step from"));
}

TEST_CASE("predictions take batch, transport and sweeps from the database") {
  const Truth truth{.latency = 1e-3, .bandwidth = 1e9, .overlap = 0.02};
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (const std::int64_t nodes : {1, 2, 4}) {
    auto trial = a_trial("e", "weak-scaling/" + std::to_string(nodes), "vm", std::nullopt);
    trial.case_key = {"weak-scaling", nodes, {}};
    trial.status = Status::finished;
    trial.nodes = nodes;
    trial.batch_size = 32;
    trial.ranks_per_node = 2;
    trial.virtualization = "kvm";
    trial.throughput = of_images(truth.throughput(static_cast<double>(nodes)));
    Tenant tenant;
    tenant.nodes = nodes;
    tenant.workload = {{"accumulate_steps", 2}};
    tenant.transport = nodes > 1 ? "tcp" : "shm";
    store.save_tenant(store.import_trial(trial), tenant);
  }
  std::vector<Probe> probes;
  for (const std::int64_t bytes : {1 << 16, 1 << 24, 1 << 27}) {
    const double seconds = truth.all_reduce(2, static_cast<double>(bytes));
    probes.push_back({.name = "all_reduce",
                      .arm = "vm",
                      .transport = "tcp",
                      .ranks = 2,
                      .size_bytes = bytes,
                      .seconds = seconds,
                      .value = static_cast<double>(bytes) / seconds,
                      .unit = "B/s"});
    probes.push_back(probes.back());
    probes.back().transport = "shm";
    probes.back().seconds = seconds / 100;
    probes.push_back(probes.front());  // inside a node, which says nothing of the network between nodes
    probes.back().nodes = 1;
    probes.back().size_bytes = bytes;
    probes.back().seconds = seconds / 100;
  }
  store.add_probes("e", probes);
  const auto list = compare(store, {.predict = {8}});
  const auto& found = list.at(2).arms.at(0).prediction.value();
  CHECK(found.transport == "tcp");
  CHECK(found.fitted_on == "probes_and_runs");
  CHECK(found.step_seconds.value() == Approx(0.4));
  CHECK(found.overlap_seconds.value() == Approx(0.02).epsilon(1e-6));
  CHECK(at(found, 8).predicted == Approx(truth.throughput(8)).epsilon(1e-6));
  const auto json = to_json(list.at(0)).at("prediction").at("vm");
  CHECK(json.at("points").size() == 4);
  CHECK(json.at("points").at(3).at("nodes") == 8);
  CHECK(to_json(compare(store, {}).at(0)).at("prediction").is_null());
}

TEST_CASE("what an imported workload says in other types counts as not said") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (const std::int64_t nodes : {1, 2}) {
    auto trial = a_trial("e", "weak-scaling/" + std::to_string(nodes), "vm", std::nullopt);
    trial.case_key = {"weak-scaling", nodes, {}};
    trial.status = Status::finished;
    trial.nodes = nodes;
    trial.batch_size = 32;
    trial.throughput = of_images(100.0 * static_cast<double>(nodes));
    Tenant tenant;
    tenant.nodes = nodes;
    tenant.workload = {{"accumulate_steps", "4"}, {"backend", 5}, {"precision", nullptr}};
    store.save_tenant(store.import_trial(trial), tenant);
  }
  const auto list = compare(store, {.predict = {2}});
  CHECK(list.at(1).arms.at(0).prediction.value().step_seconds.value() == Approx(0.32));
}
