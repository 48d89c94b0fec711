// A neighbour's stressor that does not reach its level: planted, on a real agent.

#include "harness/job/stress_job.h"

#include <sys/stat.h>

#include <fstream>

#include "common/error.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace virtrain::test;
using Strings = std::vector<std::string>;

namespace {

using Task = asio::awaitable<void>;

/// Told to go, it says ten times a second that it was at work for this share of the time. A quota of CPU time
/// would not hold the real one down, which counts waiting for a core as work.
constexpr const char* stressor = R"(#!/bin/sh
echo '{"record":"hello"}'; echo '{"record":"ready"}'
read word
share=$(cat "$0.share")
while [ ! -e "$0.stop" ]; do
  echo "{\"record\":\"progress\",\"t_ns\":$(($(cut -d. -f1 /proc/uptime) * 1000000000)),\"seconds\":0.1,\"busy\":$share,\"rate\":1}"
  sleep 0.1
done
)";

TenantPlacement neighbour(const std::string& aggressor, double level) {
  TenantPlacement placement;
  placement.neighbour = Neighbour{aggressor, level, Share::core};
  placement.nodes.emplace_back();
  placement.nodes[0].memory_bytes = 1ULL << 30;
  return placement;
}

/// The words of the trial's failure where the stressor says that share; empty: it counts as at its level.
std::string failure_at(const std::string& share, const std::string& aggressor = "cpu", double level = 1) {
  static std::string words, program;
  static TenantPlacement placement;
  const TemporaryFolder folder;
  program = folder.path / "stressor";
  placement = neighbour(aggressor, level);
  std::ofstream(program) << stressor;
  std::ofstream(program + ".share") << share;
  ::chmod(program.c_str(), 0755);
  Session session;
  session.run(+[](Session& s) -> Task {
    const std::vector<JobNode> nodes{{"t2n1", s.clients[0]}};
    auto job = std::make_shared<StressJob>(s.io, placement, nodes, MpiDialect{});
    words.clear();
    try {
      co_await job->launch(program, 20s);
      co_await job->reach_level(1500ms);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::trial_failed);
      words = error.what();
    }
    std::ofstream(program + ".stop") << "";
    co_await s.client().sweep();
  });
  return words;
}

}  // namespace

TEST_CASE("an aggressor that does not reach its level fails the trial with what it reached") {
  CHECK(failure_at("0.42") ==
        "wait until the aggressor works at its level: not within 1 s: cpu reached 42 % of 100 %");
  CHECK(failure_at("0.1", "membw", 0.25) ==
        "wait until the aggressor works at its level: not within 1 s: membw reached 10 % of 25 %");
  CHECK_THAT(failure_at("\"much\""),
             virtrain::test::Contains("'busy' must be a finite number from 0 to 100"));
}

TEST_CASE("an aggressor within a tenth of its level counts as at it, from either side") {
  CHECK(failure_at("0.91").empty());
  CHECK(failure_at("0.27", "cpu", 0.25).empty());
  CHECK_FALSE(failure_at("0.28", "cpu", 0.25).empty());  // more is not what was asked for, either
}

TEST_CASE("a load of the disk writes to a file of its own, or where the node has one to a disk for it") {
  const auto command = [](const std::string& file) {
    return stressor_command("stress", "disk", 0.5, std::nullopt, 1ULL << 30, file);
  };
  CHECK(command("/var/lib/virtrain/logs/e/vt-1.load") ==
        Strings{"stress", "--kind", "disk", "--rate", "50%", "--file", "/var/lib/virtrain/logs/e/vt-1.load"});
  CHECK(command("") == Strings{"stress", "--kind", "disk", "--rate", "50%", "--serial", "virtrain-scratch"});
}
