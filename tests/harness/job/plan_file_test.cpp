#include "harness/job/plan_file.h"

#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/frames/frame.h"
#include "harness/job/trainer_job.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace virtrain::test;
using virtrain::test::Contains;

namespace {

using Task = asio::awaitable<void>;

nlohmann::json content(const PlanFile& plans) {
  return nlohmann::json::parse(plans.text());
}

std::string deeply_nested() {
  const std::string::size_type depth = 150'000;
  std::string text;
  for (std::string::size_type i = 0; i < depth; ++i) { text += R"({"a":)"; }
  return text + "1" + std::string(depth, '}');
}

/// Stands where the CUDA trainer does: keeps aside the plan file that it finds, adds a graph to it as a
/// trainer that has timed one does, and goes on as the faults' trainer.
std::string make_stand_in(const std::filesystem::path& folder) {
  const auto program = folder / "trainer";
  std::ofstream(program)
      << "#!/bin/sh\n"
         "cd \"$XDG_CACHE_HOME/virtrain\" || exit 1\n"
         "cp cudnn-plans.json found.json || exit 1\n"
         "echo '{\"A100\":{\"conv1\":\"other\",\"conv2\":\"engine 2\"}}' > cudnn-plans.json\n"
         "exec " VIRTRAIN_BINARY_DIR "/fault-kit/virtrain-resnet50-cpu \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return program;
}

}  // namespace

TEST_CASE("the first trial that has timed a graph decides for all later ones") {
  PlanFile plans;
  CHECK(plans.empty());
  plans.add(R"({"A100":{"conv1":"engine 1"}})");
  plans.add(R"({"A100":{"conv1":"other","conv2":"engine 2"},"H100":{"conv1":"engine 3"}})");
  CHECK_FALSE(plans.empty());
  CHECK(content(plans) ==
        nlohmann::json::parse(
            R"({"A100":{"conv1":"engine 1","conv2":"engine 2"},"H100":{"conv1":"engine 3"}})"));
}

TEST_CASE("what a guest sends is a plan file, or nothing of it is kept") {
  PlanFile plans;
  plans.add(R"({"A100":{"conv1":"engine 1"}})");
  const auto before = plans.text();
  for (const std::string text :
       {"", "no JSON", "7", "[]", R"({"A100":7})", R"({"A100":{"conv1":7}})",
        R"({"A100":{"conv2":"engine"},"H100":[]})", "{\"A100\":{\"\xff\":\"engine\"}}"}) {
    CHECK_THROWS_WITH(plans.add(text), Contains("plan file"));
  }
  CHECK_THROWS_AS(plans.add(deeply_nested()), Error);
  const std::string large(max_body_bytes - 30, 'x');
  CHECK_THROWS_WITH(plans.add(R"({"H100":{"conv1":")" + large + "\"}}"), Contains("over 1 MiB"));
  CHECK(plans.text() == before);
}

TEST_CASE("row 16: a guest's word on engines reaches neither bare metal nor another tenant") {
  const auto file = [](const std::string& text) {
    PlanFile plans;
    plans.add(text);
    return plans;
  };
  const auto engine = [](const PlanFile& plans, const char* graph) {
    return plans.empty() ? "" : content(plans).at("A100").value(graph, "");
  };
  KnownPlans plans;
  CHECK(plans.add("case/a", file(R"({"A100":{"conv1":"slowest"}})")) == 0);
  CHECK(plans.for_node("").empty());
  CHECK(plans.for_node("case/b").empty());
  CHECK(plans.for_node("other/a").empty());
  CHECK(engine(plans.for_node("case/a"), "conv1") == "slowest");
  // Bare metal times for itself; from then on its word counts for all, and that a guest had another one is
  // seen.
  CHECK(plans.add("", file(R"({"A100":{"conv1":"fastest"}})")) == 1);
  for (const char* node : {"", "case/a", "case/b"}) {
    CHECK(engine(plans.for_node(node), "conv1") == "fastest");
  }
  CHECK(plans.add("case/b", file(R"({"A100":{"conv1":"slowest","conv2":"own"}})")) == 1);
  CHECK(engine(plans.for_node("case/b"), "conv1") == "fastest");
  CHECK(engine(plans.for_node("case/b"), "conv2") == "own");
  CHECK(engine(plans.for_node(""), "conv2").empty());
  CHECK(engine(plans.for_node("case/a"), "conv2").empty());
  // What would not fit beside bare metal's is not kept.
  const auto large = file(R"({"H100":{"conv1":")" + std::string(max_body_bytes - 30, 'x') + "\"}}");
  CHECK_THROWS_AS(plans.add("case/a", large), Error);
  CHECK(engine(plans.for_node("case/a"), "conv1") == "fastest");
}

TEST_CASE("bare metal alone times what is fused, all others take its choice or none") {
  const std::string trained = "fp16 224px n256 x1", other = "bf16 224px n256 x1";
  KnownPlans plans;
  CHECK(plans.fusion_rule("", trained, true) == FusionRule::auto_);
  CHECK(plans.fusion_rule("", trained, true) == FusionRule::auto_);  // the first may have failed
  CHECK(plans.fusion_rule("case/a", trained, true) == FusionRule::remembered);
  CHECK(plans.fusion_rule("", trained, true) == FusionRule::remembered);
  // A guest that went first took the highest level, so bare metal does.
  CHECK(plans.fusion_rule("case/a", other, true) == FusionRule::remembered);
  CHECK(plans.fusion_rule("", other, true) == FusionRule::remembered);
  // Two tenants at once would time beside each other, and choose apart.
  KnownPlans together;
  CHECK(together.fusion_rule("", trained, false) == FusionRule::remembered);
  CHECK(together.fusion_rule("", trained, true) == FusionRule::remembered);
}

// With the real agent; what stands in for the trainer times nothing.
TEST_CASE("ranks find the experiment's engines in their node, and what they add comes back") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const TemporaryFolder temporary;
    const std::string home = temporary.path / "deep" / "cache";
    PlanFile plans;
    plans.add(R"({"A100":{"conv1":"engine 1"}})");
    co_await give_plans(s.io, s.clients[0], home, plans);

    TenantPlacement placement;
    placement.workload.backend = Backend::cuda;
    placement.workload.steps = 1;
    placement.gpus_per_node = 1;
    placement.nodes.resize(1);
    std::vector<JobNode> nodes(1);
    nodes[0].agent = s.clients[0];
    nodes[0].environment[cache_variable] = home;
    const auto job =
        std::make_shared<TrainerJob>(s.io, placement, std::move(nodes), RankNetwork::single_process);
    const auto trainer = make_stand_in(temporary.path);
    co_await job->launch(trainer, 60s);
    co_await job->wait_for_ready(20s);
    CHECK(read_file(home + "/virtrain/found.json") == R"({"A100":{"conv1":"engine 1"}})");

    plans.add(co_await take_plans(s.clients[0], home));
    CHECK(plans.text() == R"({"A100":{"conv1":"engine 1","conv2":"engine 2"}})");
    co_await job->go();
    co_await job->wait_for_results(20s);
  });
}

TEST_CASE("a node gets no file where nothing is known yet, and may have none") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const TemporaryFolder temporary;
    PlanFile plans;
    const std::string home = temporary.path / "cache";
    co_await give_plans(s.io, s.clients[0], home, plans);
    CHECK_FALSE(std::filesystem::exists(home));
    std::string reason;
    try {
      co_await take_plans(s.clients[0], home);
    } catch (const Error& error) { reason = error.what(); }
    CHECK_THAT(reason, Contains("cannot be read"));
    CHECK(plans.empty());
  });
}
