// JSON of nccl-tests (data/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "results/exchange/exporters/exporters.h"
#include "results/tables/render.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

TEST_CASE("nccl-tests' JSON becomes probes like its table") {
  const auto got = others("all_reduce.json", {.experiment = "e", .arm = "vm"});
  CHECK(got.report.format == FileFormat::nccl_tests);
  const auto probes = got.probes();
  REQUIRE(probes.size() == 2);
  CHECK(probes[0].name == "all_reduce");
  CHECK(probes[0].size_bytes == 1048576);
  CHECK(probes[0].value == Approx(6.47e9));
  CHECK(*probes[0].seconds == Approx(162e-6));
  CHECK(probes[0].wrong == 0);
  CHECK(probes[0].ranks == 2);
  CHECK(probes[0].nodes == 2);
  CHECK(probes[0].data_type == "float");
  CHECK(probes[1].detail["in_place"] == true);
  CHECK_FALSE(probes[1].wrong);
  CHECK_THAT(changed("all_reduce.json", "average_bus", "other"), Contains("the test did not finish"));
  CHECK_THAT(changed("all_reduce.json", "\"time\":162.000000", "\"time\":\"nan\""),
             StartsWith("all_reduce.json:1: ") && Contains("out_of_place has no time"));
  CHECK_THAT(changed("all_reduce.json", "all_reduce_perf", "perf"), Contains("--collective"));
  CHECK_THAT(changed("all_reduce.json", "\"size\":1048576", "\"size\":-1"), Contains("size"));
}

// nccl-tests-run/ was written by the programs of NVIDIA/nccl-tests themselves, as they are: 2.19.6 (commit
// a0b82b2260cf5152b9f8c061bbf7eaf0ba096432), and misspelt.json by 2.17.8
// (81463c58d093dba403c28c28cd050ea948e9e1ba). CUDA, NCCL and the data's generator below them were stand-ins
// without a GPU that slept, so that times and bandwidths mean nothing. Of each run there are the JSON and the
// table that the same process printed.
TEST_CASE("what nccl-tests wrote with -J becomes the probes of the table that it printed") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto run = [&](const std::string& file) {
    return ImportedText(file, text_of("nccl-tests-run/" + file), settings);
  };
  for (const std::string name : {"wrong", "unchecked", "split"}) {
    CAPTURE(name);
    const auto ours = run(name + ".json").probes(), printed = run(name + ".txt").probes();
    REQUIRE(ours.size() == (name == "split" ? 2U : 4U));
    REQUIRE(printed.size() == ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CAPTURE(i);
      const auto& one = ours[i];
      const auto& other = printed[i];
      // The table has two decimals.
      CHECK(std::abs(*one.seconds - *other.seconds) < 0.0051e-6);
      CHECK(std::abs(one.value - other.value) < 0.0051e9);
      CHECK(std::abs(*one.bus_bytes_per_second - *other.bus_bytes_per_second) < 0.0051e9);
      const auto rest = [](const Probe& probe) {
        return std::tie(probe.name, probe.node, probe.data_type, probe.nodes, probe.ranks, probe.size_bytes,
                        probe.unit, probe.wrong);
      };
      CHECK((rest(one) == rest(other)));
      CHECK(one.detail == other.detail);
    }
  }
}

TEST_CASE("nccl-tests' JSON of wrong data, without a check, of groups and with a misspelt key") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = [](const std::string& file) { return text_of("nccl-tests-run/" + file); };
  const auto wrong = ImportedText("wrong.json", text("wrong.json"), settings);
  CHECK(import_words(wrong.report.report) == "1 experiment, 4 probes (2 of them with wrong data)");
  CHECK(wrong.probes()[1].wrong == 0);
  CHECK(wrong.probes()[2].wrong == 3);
  CHECK(wrong.probes()[2].ranks == 2);
  CHECK(wrong.probes()[2].node == "node-a");
  CHECK(wrong.probes()[2].detail["count"] == 65536);
  CHECK(wrong.probes()[2].detail["root"] == -1);
  // What the program says at its end, having found wrong data, does not make its table one of a failed run.
  const auto table = text("wrong.txt");
  CHECK(table.find("Test failure") != std::string::npos);
  CHECK_THAT(refusal_of("w.txt", replaced(table, "# Avg", "Test failure\n# Avg"), settings),
             Contains("the test failed"));
  CHECK_THAT(
      refusal_of("w.txt", table + "# nThread 1 nGpus 2\n .. node-a pid 1: Test failure x:1\n", settings),
      Contains("the test failed"));
  const auto unchecked = ImportedText("unchecked.txt", text("unchecked.txt"), settings).probes();
  CHECK_FALSE(unchecked[0].wrong);
  CHECK(unchecked[0].ranks == 3);
  CHECK(unchecked[0].data_type == "half");
  CHECK(unchecked[0].detail["device"] == "Stand-in GPU");
  // Two groups of three, each on a node of its own: a bus bandwidth of 2 * (3 - 1) / 3.
  const auto split = ImportedText("split.json", text("split.json"), settings).probes();
  CHECK(*split[0].bus_bytes_per_second == Approx(split[0].value * 4 / 3).epsilon(1e-5));
  CHECK(split[0].ranks == 3);
  CHECK(split[0].nodes == 1);
  CHECK(split[0].node.empty());
  CHECK(split[0].detail["groups"] == 2);
  CHECK(ImportedText("m.json", text("misspelt.json"), settings).probes().size() == 2);
}

TEST_CASE("nccl-tests' JSON of a run that did not finish, or of another collective, says so") {
  ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests-run/wrong.json");
  const auto without_devices = text.substr(0, text.find(",\"devices\"")) + "}}";
  CHECK_THAT(refusal_of("x.json", without_devices, settings), Contains("the test did not finish"));
  CHECK_THAT(refusal_of("x.json", text.substr(0, text.size() / 2), settings),
             StartsWith("x.json:1:680: this is not JSON: ") && Contains("unexpected end of input"));
  settings.collective = "broadcast";
  CHECK_THAT(refusal_of("x.json", text, settings), Contains("the output of all_reduce, not of broadcast"));
}
