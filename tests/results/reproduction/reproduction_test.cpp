#include "results/reproduction/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/text/text.h"
#include "common/text/wrap.h"
#include "results/exchange/exchange.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

constexpr const char* published = "dell-r750xa-published";

/// The shipped study, and a run of ours on CPUs with one arm that the study does not have.
class Studies {
 public:
  Studies() : store(folder_.path / "r.db") {
    std::ifstream shipped(std::string(VIRTRAIN_SOURCE_DIR) + "/scenarios/published/dell-r750xa.jsonl");
    import_jsonl(store, shipped, "dell-r750xa.jsonl");
    std::istringstream own(
        R"({"record":"experiment","experiment":"own","scenario":"dell-r750xa-cpu","host_name":"lab-7","virtrain_version":"0.1.0","fingerprint":{"cpu_model":"AMD EPYC","qemu":"QEMU 7.2.22"}}
{"record":"trial","experiment":"own","scenario":"dell-r750xa-cpu","case":"weak-scaling/1","arm":"bare_metal","pair":1,"nodes":1,"gpus_per_node":0,"batch_size":4,"backend":"cpu","images_per_second":100,"virtualization":"none"}
{"record":"trial","experiment":"own","scenario":"dell-r750xa-cpu","case":"weak-scaling/1","arm":"vm","pair":1,"nodes":1,"gpus_per_node":0,"batch_size":4,"backend":"cpu","images_per_second":90,"virtualization":"kvm"}
{"record":"trial","experiment":"own","scenario":"dell-r750xa-cpu","case":"weak-scaling/4","arm":"bare_metal","pair":1,"nodes":4,"gpus_per_node":0,"batch_size":4,"backend":"cpu","images_per_second":360,"virtualization":"none"}
{"record":"trial","experiment":"own","scenario":"dell-r750xa-cpu","case":"weak-scaling/4","arm":"vm","pair":1,"nodes":4,"gpus_per_node":0,"batch_size":4,"backend":"cpu","images_per_second":270,"virtualization":"kvm"}
)");
    import_jsonl(store, own, "own.jsonl");
  }

 private:
  TemporaryFolder folder_;

 public:
  Store store;
};

const ReproducedArm& line(const Reproduction& result, const std::string& case_name, const std::string& arm) {
  const auto found = std::find_if(result.arms.begin(), result.arms.end(), [&](const auto& one) {
    return one.case_name == case_name && one.arm == arm;
  });
  REQUIRE(found != result.arms.end());
  return *found;
}

const StudyDifference* difference(const Reproduction& result, const std::string& topic) {
  const auto found = std::find_if(result.differences.begin(), result.differences.end(),
                                  [&](const auto& one) { return one.topic == topic; });
  return found == result.differences.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the published figures stand beside our own", "[reproduction]") {
  const Studies studies;
  const auto result = reproduction(studies.store, published, "own");

  const auto& four = line(result, "weak-scaling/4", "vm");
  CHECK(four.published.throughput == 10675.0925);
  CHECK(*four.published.speedup == Approx(3.8717).epsilon(1e-5));     // published-results.md, "Derived"
  CHECK(*four.published.efficiency == Approx(0.9679).epsilon(1e-4));  // likewise
  CHECK(*four.published.ratio == Approx(0.98679).epsilon(1e-5));      // likewise
  CHECK(four.own.throughput == 270);
  CHECK(four.own.speedup == 3);
  CHECK(four.own.efficiency == 0.75);
  CHECK(*four.own.ratio == Approx(0.75));
}

TEST_CASE("a variant, which is compared with the arm it is like, leaves that arm its ratio",
          "[reproduction]") {
  Studies studies;
  std::string records =
      R"({"record":"experiment","experiment":"tuned","scenario":"s","host_name":"h","virtrain_version":"0.1.0","plan":{"arms":[{"name":"bare_metal","base":"bare_metal"},{"name":"vm","base":"vm"},{"name":"vm-tuned","base":"vm","like":"vm"}]}})";
  for (const auto& [arm, speed] : {std::pair("bare_metal", 360), {"vm", 270}, {"vm-tuned", 300}}) {
    records += fmt::format(
        "\n"
        R"({{"record":"trial","experiment":"tuned","scenario":"s","case":"weak-scaling/4","arm":"{}","pair":1,"nodes":4,)"
        R"("gpus_per_node":0,"batch_size":4,"images_per_second":{}}})",
        arm, speed);
  }
  std::istringstream tuned(records + "\n");
  import_jsonl(studies.store, tuned, "tuned.jsonl");
  const auto result = reproduction(studies.store, published, "tuned");
  CHECK(*line(result, "weak-scaling/4", "vm").own.ratio == Approx(0.75));
  CHECK_FALSE(line(result, "weak-scaling/4", "vm-tuned").own.ratio);
}

TEST_CASE("a line that only one side has stays empty on the other, beside the arms of its case",
          "[reproduction]") {
  const Studies studies;
  const auto result = reproduction(studies.store, published, "own");
  CHECK_FALSE(line(result, "one-vm-two-gpus", "vm").own.throughput);
  const auto& bare_metal = line(result, "weak-scaling/1", "bare_metal");
  CHECK_FALSE(bare_metal.published.throughput);
  CHECK(bare_metal.own.throughput == 100);

  std::vector<std::string> cases;
  for (const auto& one : result.arms) { cases.push_back(one.case_name); }
  CHECK(cases == std::vector<std::string>{"one-vm-two-gpus", "two-vms-one-gpu", "two-vms-two-gpus",
                                          "weak-scaling/1", "weak-scaling/1", "weak-scaling/2",
                                          "weak-scaling/4", "weak-scaling/4"});
}

TEST_CASE("what differs is listed, also where one side says nothing", "[reproduction]") {
  const Studies studies;
  const auto result = reproduction(studies.store, published, "own");
  for (const char* topic : {"host", "hypervisor", "GPU driver", "CUDA", "trainer", "batch size of a rank",
                            "memory of a VM", "backend", "processor"}) {
    INFO(topic);
    CHECK(difference(result, topic) != nullptr);
  }
  CHECK(difference(result, "host")->own == "lab-7");
  CHECK(difference(result, "hypervisor")->published == "VMware ESXi 7.0.3");
  CHECK(difference(result, "hypervisor")->own == "QEMU 7.2.22");
  CHECK(difference(result, "batch size of a rank")->published == "1024");
  CHECK(difference(result, "batch size of a rank")->own == "4");
  CHECK(difference(result, "GPU driver")->own.empty());
  CHECK(difference(result, "precision") == nullptr);               // neither says it
  CHECK(difference(result, "runs of a case and arm") == nullptr);  // one each on both sides
}

TEST_CASE("what ranks said of their GPUs stands in the study's list", "[reproduction]") {
  Studies studies;
  const auto trial = studies.store.trials("own").at(0);
  Tenant tenant;
  const auto tenant_id = studies.store.save_tenant(trial.id, tenant);
  Node node;
  for (const char* name : {"n1", "n2"}) {
    node.name = name;
    node.kind = "slice";
    node.fingerprint = {{"gpu_name", "NVIDIA A100, NVIDIA T4"}, {"driver", "550.90.07"}, {"cuda", "13.0"}};
    studies.store.save_node(tenant_id, node);
  }
  const auto facts = study_facts(studies.store, "own");
  CHECK(facts.find("gpu_name")->second == std::set<std::string>{"NVIDIA A100", "NVIDIA T4"});
  const auto result = reproduction(studies.store, published, "own");
  CHECK(difference(result, "GPU driver")->own == "550.90.07");
  CHECK(difference(result, "CUDA")->own == "13.0");
}

TEST_CASE("a guest that lies about its CPUs spoils that fact alone", "[reproduction]") {
  Studies studies;
  const auto tenant = studies.store.save_tenant(studies.store.trials("own").at(0).id, {});
  Node node;
  node.name = "n1";
  node.kind = "vm";
  node.fingerprint = {{"cpus", "0-3\x1b,many"}, {"driver", "550.90.07"}};
  studies.store.save_node(tenant, node);
  const auto facts = study_facts(studies.store, "own");
  CHECK(facts.find("vcpus")->second ==
        std::set<std::string>{"\"0-3\uFFFD,many\", which is not a list of CPUs"});
  CHECK(facts.find("driver")->second == std::set<std::string>{"550.90.07"});
}

TEST_CASE("a reproduction fits 80 columns: a table for each scaling and arm, then cases and ratios",
          "[reproduction]") {
  const Studies studies;
  const auto result = reproduction(studies.store, published, "own");
  std::string text;
  auto tables = narrow_tables(result);
  tables.push_back(differences_table(result));
  for (const auto& table : tables) { text += render(table, Format::table, {false, 80}) + "\n"; }
  for (const auto& line : virtrain::split(text, '\n')) {
    CHECK(virtrain::text_width(line) <= 80);
    CHECK_THAT(line, !virtrain::test::Contains(": not stated"));
  }
  using virtrain::test::Contains;
  CHECK_THAT(text,
             Contains("weak-scaling in vm: images/s\n\n"
                      "                                                     published      own ÷\n"
                      "nodes    own  speedup  ideal  efficiency  published    speedup  published\n") &&
                 Contains("\n    4  270.0    3.000      4      75.0 %    10675.1      3.872    0.02529\n") &&
                 Contains("weak-scaling in bare_metal: images/s") && Contains("Other cases: images/s") &&
                 Contains("VM against bare metal\n\ncase               own  published\n"));
  const auto json = to_json(result);
  for (const auto& arm : json.at("arms")) {
    if (arm.at("case") == "weak-scaling/4" && arm.at("arm") == "vm") {
      CHECK(arm.at("own_to_published").get<double>() == Approx(270 / 10675.0925));
    }
  }
}

TEST_CASE("the tables and the JSON say the same", "[reproduction]") {
  const Studies studies;
  const auto result = reproduction(studies.store, published, "own");
  const auto text =
      render(figures_table(result), Format::table) + render(differences_table(result), Format::table);
  CHECK_THAT(text, virtrain::test::Contains("10675.1") && virtrain::test::Contains("3.872") &&
                       virtrain::test::Contains("96.8 %") && virtrain::test::Contains("270.0") &&
                       virtrain::test::Contains("not stated") && virtrain::test::Contains("470.82.01"));
  const auto json = to_json(result);
  CHECK(json.at("arms").size() == result.arms.size());
  CHECK(json.at("arms").at(0).at("own").at("speedup").is_null());
  CHECK(json.at("verdicts").size() == 2);
}

TEST_CASE("an experiment that is not there is refused with words", "[reproduction]") {
  const Studies studies;
  CHECK_THROWS_WITH(reproduction(studies.store, published, "nowhere"),
                    virtrain::test::Contains("nowhere") && virtrain::test::Contains("virtrain list"));
}

TEST_CASE("a case that was published in another unit is refused in words", "[reproduction]") {
  Studies studies;
  const auto import_own = [&](const std::string& id, const std::string& case_name) {
    std::istringstream own(fmt::format(
        R"({{"record":"trial","experiment":"{}","scenario":"s","case":"{}","arm":"vm","pair":1,"nodes":1,)"
        R"("gpus_per_node":0,"throughput":1234.5,"unit":"tokens/s","virtualization":"kvm"}})"
        "\n",
        id, case_name));
    import_jsonl(studies.store, own, id + ".jsonl");
  };
  import_own("other", "weak-scaling/1");
  CHECK_THAT(error_of([&] { reproduction(studies.store, published, "other"); }).what(),
             virtrain::test::Contains("weak-scaling/1 was published in images/s and measured in tokens/s"));
  import_own("more", "of-ours");
  const auto result = reproduction(studies.store, published, "more");
  CHECK(line(result, "of-ours", "vm").unit == "tokens/s");
  CHECK_THAT(render(figures_table(result), Format::table), virtrain::test::Contains("1234.5 tokens/s"));
  const auto json = to_json(result)["arms"].back()["own"];
  CHECK(json["images_per_second"].is_null());
  CHECK(json["throughput"] == 1234.5);
}
