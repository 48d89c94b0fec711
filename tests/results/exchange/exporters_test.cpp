// What exports say of trials that do not count, and of several experiments at once.
#include "results/exchange/exporters/exporters.h"

#include <sstream>

#include "tests/results/exchange/prometheus_page.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

TEST_CASE("exports for monitoring leave out the figures of trials that do not count") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  add_finished(store, "e", "c", "vm", 1, 101.5);
  auto trial = a_trial("e", "c", "vm", 2);
  trial.throughput = of_images(20.5);
  for (const auto status : {Status::failed, Status::interrupted, Status::finished}) {
    trial.pair = *trial.pair + 1;
    trial.status = status;
    trial.valid = status != Status::finished;
    store.import_trial(trial);
  }
  const auto page = prometheus(store, {"e"});
  CHECK_THAT(page, Contains("virtrain_trial_images_per_second{") && Contains(" 101.5\n"));
  CHECK_THAT(page, !Contains("20.5") && Contains("status=\"failed\"} 1\n"));
  std::ostringstream summary;
  export_superbench(store, {"e"}, summary);
  CHECK_THAT(summary.str(), Contains("101.5") && !Contains("20.5"));
}

TEST_CASE("cases whose SuperBench names are the same are refused, with what to do") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  add_finished(store, "e", "a/b", "vm", 1, 101.5);
  add_finished(store, "e", "a-b", "vm", 1, 102.5);
  std::ostringstream summary;
  const auto error = error_of([&] { export_superbench(store, {"e"}, summary); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK_THAT(error.message(), Contains("\"a/b\" and \"a-b\"") && Contains("rename one of them"));
  CHECK(summary.str().empty());
}

TEST_CASE("the isolation of two experiments are two series of Prometheus") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  for (const auto& [id, beside] : {std::pair{"x", 90.0}, {"y", 50.0}}) {
    store.add_experiment(an_experiment(id));
    for (int pair = 1; pair <= 4; ++pair) {
      const double shift = pair % 2 == 0 ? 0.1 : -0.1;
      add_finished(store, id, "v", "vm", pair, 100 + shift);
      add_finished(store, id, "v", "vm+cpu@100%", pair, beside - shift);
    }
  }
  const auto page = prometheus(store, {"x", "y"});
  for (const char* id : {"x", "y"}) {
    CHECK_THAT(page, Contains(std::string("verdict=\"disturbed\",experiment=\"") + id +
                              "\",scenario=\"quickstart\"} 0."));
  }
  CHECK_THAT(page, !Contains("nth="));
}
