// Commands of the user's own in whole experiments on a FakeHost: real agents, shells in place of jobs.

#include <algorithm>
#include <string>

#include "common/files/file_hash.h"
#include "tests/harness/experiment/fake_experiment.h"
#include "tests/harness/experiment/payload_with_a_shell.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;

/// A workload that runs this line of a shell, and more of its keys.
std::string shell(const std::string& line, const std::string& more = "",
                  const std::string& of_throughput = "") {
  return "{command: [sh, -c, '" + line +
         "'], throughput: {pattern: \"tok/s: (?P<value>[0-9.]+)\", example: \"tok/s: 5\", unit: tokens/s" +
         of_throughput + "}" + more + "}";
}

/// Prints so many figures of this value, one each 30 ms.
std::string figures(int count, const std::string& value) {
  return "for i in $(seq " + std::to_string(count) + "); do echo step $i tok/s: " + value +
         "; sleep 0.03; done";
}

const std::map<std::string, std::string> one_trial{{"arms", "[bare_metal]"}, {"pairs", "1"}};

std::map<std::string, std::string> with(std::map<std::string, std::string> keys,
                                        const std::string& workload) {
  keys["workload"] = workload;
  return keys;
}

}  // namespace

TEST_CASE("a command's trials count in its unit, in both arms") {
  Experiment experiment;
  experiment.run(with({{"arms", "[bare_metal, vm]"}, {"pairs", "1"}},
                      shell(figures(12, "{batch_size}"), ", batch_size: 64", ", skip: 2")));
  CHECK(experiment.outcome.finished == 2);
  for (const std::size_t n : {1, 2}) {
    const auto trial = experiment.trial(n);
    INFO(trial.failure_reason << trial.invalid_reason);
    REQUIRE(trial.status == Status::finished);
    CHECK(trial.valid);
    REQUIRE(trial.throughput);
    CHECK(trial.throughput->unit == "tokens/s");
    CHECK(trial.throughput->value == Approx(64));
    CHECK(trial.batch_size == 64);
    CHECK(trial.backend.empty());
  }
  experiment.check_tidy();
}

TEST_CASE("a job runs in its payload in both arms, and its SHA-256 is a property of each node") {
  const TemporaryFolder folder;
  const auto image = payload_with_a_shell(folder.path);
  Experiment experiment;
  experiment.run(with(
      {{"arms", "[bare_metal, vm]"}, {"pairs", "1"}},
      shell("[ ${PAYLOAD##*/} = payload ] || exit 3; " + figures(12, "7"), ", payload: " + image.string())));
  CHECK(experiment.host.calls("take_payload") == 1);
  for (const std::size_t n : {1, 2}) {
    const auto trial = experiment.trial(n);
    INFO(trial.failure_reason << trial.invalid_reason);
    CHECK(trial.valid);
    const auto store = experiment.store();
    const auto node = store.nodes(store.tenants(trial.id).at(0).id).at(0);
    CHECK(node.fingerprint.at("payload_sha256") == sha256_of_file(image));
  }
  experiment.check_tidy();
}

TEST_CASE("a command that runs in each node has their figures added") {
  Experiment experiment;
  auto keys = with(one_trial, shell(figures(12, "$((100 + RANK))"), ", launch: per_node", ", scope: node"));
  keys["cases"] = "[{name: two, tenants: [{nodes: 2}]}]";
  experiment.run(keys);
  const auto trial = experiment.trial(1);
  INFO(trial.failure_reason << trial.invalid_reason);
  REQUIRE(trial.throughput);
  CHECK(trial.throughput->value == Approx(201));
  experiment.check_tidy();
}

TEST_CASE("a command's other figures are stored with unit and settings, and its throughput decides") {
  Experiment experiment;
  const std::string line =
      "for i in $(seq 12); do echo tok/s: 100 mfu: $((30 + i % 2))%; echo size 8 bw $((i * 10)); sleep 0.03; "
      "done";
  auto keys =
      with({{"arms", "[bare_metal, vm]"}, {"pairs", "1"}},
           shell(line,
                 ", figures: [{name: mfu, pattern: \"mfu: (?P<value>[0-9.]+)%\", example: \"mfu: 5%\", "
                 "unit: \"%\", skip: 2}, {name: bandwidth, pattern: \"size (?P<size_bytes>[0-9]+) bw "
                 "(?P<value>[0-9]+)\", example: size 1 bw 1, unit: MB/s}]"));
  experiment.run(keys);
  const auto store = experiment.store();
  const auto figures = store.trial_figures(experiment.outcome.experiment);
  REQUIRE(figures.size() == 4);
  for (const auto& figure : figures) {
    INFO(figure.arm << " " << figure.name);
    CHECK(figure.unit == (figure.name == "mfu" ? "%" : "MB/s"));
    CHECK(figure.value == Approx(figure.name == "mfu" ? 30.5 : 65));
    if (figure.name == "bandwidth") { CHECK(figure.settings == nlohmann::json{{"size_bytes", "8"}}); }
  }
  CHECK(experiment.trial(1).throughput->value == Approx(100));
  const auto tenant = store.tenants(experiment.trial(1).id).at(0);
  const auto rows = store.figures(tenant.id);
  CHECK(std::ranges::count_if(rows, [](const auto& row) { return row.t_ns && row.name == "throughput"; }) ==
        12);
  CHECK(std::ranges::count_if(rows, [](const auto& row) { return row.t_ns && row.name == "mfu"; }) == 12);
  for (const auto& node : store.nodes(tenant.id)) {
    for (const auto& reading : store.telemetry(node.id)) { CHECK_THAT(reading.metric, !Contains("figure")); }
  }
  experiment.check_tidy();
}

TEST_CASE("job_formats: a whole table of nccl-tests, by the program's stand-in") {
  struct {
    const char* name;
    std::string options, words;
  } const cases[] = {
      {"a good one", "", ""},
      {"in one burst", " --burst", "no clock checks it"},
      {"with wrong data", " --wrong", "elements of its data came out wrong"},
      {"that is cut", " --cut", "the test did not finish"},
  };
  for (const auto& one : cases) {
    DYNAMIC_SECTION(one.name) {
      Experiment experiment;
      experiment.run(
          with(one_trial, std::string("{command: [sh, -c, \"exec /usr/bin/python3 " VIRTRAIN_SOURCE_DIR
                                      "/tests/jobs/all_reduce_perf.py") +
                              one.options + "\"], throughput: {format: nccl-tests, size: 1MiB}}"));
      const auto trial = experiment.trial(1);
      INFO(trial.failure_reason << trial.invalid_reason);
      CHECK(trial.status == Status::finished);
      CHECK_THAT(trial.invalid_reason, Contains(one.words));
      CHECK(trial.valid == one.words.empty());
      if (one.words.empty()) {
        REQUIRE(trial.throughput);
        CHECK(trial.throughput->unit == "B/s");
        // Two ranks: the bus bandwidth is the algorithm's, 1 MiB in 1.262 ms.
        CHECK(trial.throughput->value == Approx(0.8308e9).epsilon(0.001));
        CHECK(experiment.store().trial_figures(experiment.outcome.experiment).size() == 12);
      }
      experiment.check_tidy();
    }
  }
}

TEST_CASE("a command that never prints one of its figures makes an invalid trial") {
  Experiment experiment;
  experiment.run(with(one_trial, shell(figures(12, "7"),
                                       ", figures: [{name: mfu, pattern: \"mfu: (?P<value>[0-9.]+)%\", "
                                       "example: \"mfu: 5%\", unit: \"%\"}]")));
  CHECK_FALSE(experiment.trial(1).valid);
  CHECK_THAT(experiment.trial(1).invalid_reason, Contains("the command printed no mfu"));
  CHECK(experiment.store().trial_figures(experiment.outcome.experiment).empty());
}

TEST_CASE(
    "a command that runs in each node runs as often where one slice stands for all, with the same figure") {
  Experiment experiment;
  auto keys = with({{"arms", "[bare_metal, bare_metal_shared]"}, {"pairs", "1"}},
                   shell(figures(12, "$((100 + RANK + 10 * WORLD_SIZE + 1000 * LOCAL_RANK))"),
                         ", launch: per_node", ", scope: node"));
  keys["cases"] = "[{name: two, tenants: [{nodes: 2}]}]";
  experiment.run(keys);
  for (const std::size_t n : {1, 2}) {
    const auto trial = experiment.trial(n);
    INFO(trial.failure_reason << trial.invalid_reason);
    REQUIRE(trial.throughput);
    CHECK(trial.throughput->value == Approx(241));
  }
  experiment.check_tidy();
}

TEST_CASE("a command that ends badly for one of the nodes that a slice stands for says for which") {
  Experiment experiment;
  auto keys = with({{"arms", "[bare_metal_shared]"}, {"pairs", "1"}},
                   shell("[ $RANK = 1 ] && exit 3; sleep 1000", ", launch: per_node", ", scope: node"));
  keys["cases"] = "[{name: two, tenants: [{nodes: 2}]}]";
  experiment.run(keys);
  CHECK_THAT(experiment.trial(1).invalid_reason, Contains("ended with exit status 3 in t1n2"));
  experiment.check_tidy();
}

TEST_CASE(
    "a command whose figures or exit status cannot be believed makes an invalid trial with its last lines") {
  struct {
    const char* name;
    std::string line, words;
    bool failed = false;
  } const cases[] = {
      {"an exit status", "echo oh no >&2; exit 3", "ended with exit status 3"},
      {"no figure", "echo hello", "printed no figure"},
      {"a burst", "for i in $(seq 20); do echo tok/s: 5; done", "so no clock checks them"},
      {"no such program", "exec /no/such/program", "not found: is the program in the node"},
      {"another level", figures(30, "100") + "; " + figures(30, "30"),
       "figures fall from about 100 to 30 tokens/s"},
      {"an exit status behind good figures", figures(12, "7") + "; exit 3", "ended with exit status 3"},
      {"a flood", "yes ", "the command wrote more than 64MiB of output", true},
  };
  for (const auto& one : cases) {
    DYNAMIC_SECTION(one.name) {
      Experiment experiment;
      experiment.run(with(one_trial, shell(one.line)));
      const auto trial = experiment.trial(1);
      CHECK(trial.status == (one.failed ? Status::failed : Status::finished));
      CHECK_FALSE(is_usable(trial));
      CHECK_THAT(trial.failure_reason + trial.invalid_reason, Contains(one.words));
      if (std::string(one.name) == "an exit status") { CHECK_THAT(trial.invalid_reason, Contains("oh no")); }
      if (!one.failed) { CHECK(experiment.outcome.invalid == 1); }
      experiment.check_tidy();
    }
  }
}

TEST_CASE("a command that ends badly in one node is not waited for in the others") {
  Experiment experiment;
  auto keys =
      with(one_trial, shell("[ $RANK = 1 ] && exit 3; sleep 1000", ", launch: per_node", ", scope: node"));
  keys["cases"] = "[{name: two, tenants: [{nodes: 2}]}]";
  experiment.run(keys);
  const auto trial = experiment.trial(1);
  CHECK(trial.status == Status::finished);
  CHECK_FALSE(trial.throughput);
  CHECK_THAT(trial.invalid_reason, Contains("ended with exit status 3"));
  CHECK(experiment.event("processes were left after the job and have been killed"));
  experiment.check_tidy();
}

TEST_CASE("a command that never ends is ended, and one that leaves processes behind has them killed") {
  Experiment endless;
  auto keys = with(one_trial, shell("echo started; sleep 1000"));
  keys["trial_timeout"] = "2s";
  endless.run(keys);
  CHECK_THAT(endless.trial(1).failure_reason, Contains("has not ended after"));
  CHECK_THAT(endless.trial(1).failure_reason, Contains("started"));
  endless.check_tidy();

  Experiment leaves;
  leaves.run(with(one_trial, shell("setsid sleep 1000 > /dev/null 2>&1 & " + figures(12, "7"))));
  CHECK(leaves.trial(1).valid);
  CHECK(leaves.event("processes were left after the job and have been killed"));
  leaves.check_tidy();
}

}  // namespace virtrain::harness
