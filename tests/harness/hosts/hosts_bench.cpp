// A coordinator of 64 pretended hosts: FakeHosts behind real frames, real agents, trainers that sleep their
// steps, a real database. Prints: seconds to plan, inventories asked over the frames; seconds of the run;
// cores that this process used meanwhile, the pretended hosts included; its largest resident size in MB.

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>

#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "harness/experiment/experiment.h"
#include "harness/experiment/preflight.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace virtrain;

constexpr int host_count = 64;

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double seconds_since(std::int64_t began_ns) {
  return static_cast<double>(monotonic_ns() - began_ns) * 1e-9;
}

harness::Scenario scenario() {
  std::string tenants;
  for (int t = 0; t < host_count; ++t) { tenants += std::string(t == 0 ? "" : ", ") + "{nodes: 1}"; }
  return harness::decode_scenario(
      "name: many\nworkload: {batch_size: 4, image_size: 32, warmup_steps: 0, steps: 300, display_every: "
      "10}\n"
      "guest: {vcpus: 1, memory: 512MiB}\ncases: [{name: one-each, tenants: [" +
          tenants + "]}]\narms: [vm]\npairs: 1\n",
      "many.yaml");
}

int measure() {
  ::setenv("STEP_SECONDS", "0.1", 1);
  const TemporaryFolder folder;
  ::setenv("VIRTRAIN_TEST_FOLDER", folder.path.c_str(), 1);
  std::vector<std::unique_ptr<test::FakeHost>> fakes;
  std::vector<std::unique_ptr<test::FramedHost>> framed;
  std::vector<harness::NamedHost> named;
  for (int n = 0; n < host_count; ++n) {
    const auto own = folder.path / fmt::format("host-{:02}", n);
    std::filesystem::create_directories(own);
    fakes.push_back(std::make_unique<test::FakeHost>(
        own, sibling_program("virtrain-agent"),
        std::map<std::string, std::filesystem::path>{
            {"virtrain-resnet50-cpu",
             sibling_program("virtrain-agent").parent_path() / "fault-kit" / "virtrain-resnet50-cpu"}}));
    const auto name = fmt::format("host-{:02}", n);
    framed.push_back(std::make_unique<test::FramedHost>(*fakes.back(), name));
    named.push_back({name, {vmctl::HostNetworkKind::vxlan, "data0"}, framed.back()->take_client()});
  }
  const auto wanted = scenario();
  auto began_ns = monotonic_ns();
  const auto plan = harness::make_plan(wanted, harness::plan_hosts(named, wanted));
  const double to_plan = seconds_since(began_ns);
  began_ns = monotonic_ns();
  const double cpu = cpu_seconds();
  harness::RunHosts hosts(named);
  const auto outcome = harness::run_experiment(hosts, wanted, plan, folder.path / "results.db", {});
  const double seconds = seconds_since(began_ns);
  const double cores = (cpu_seconds() - cpu) / seconds;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  if (outcome.finished != 1) {
    fmt::print(stderr, "the trial failed: {}\n", outcome.first_failure);
    return 1;
  }
  fmt::print("{:.3f} {:.1f} {:.3f} {:.0f}\n", to_plan, seconds, cores,
             static_cast<double>(used.ru_maxrss) / 1000);
  return 0;
}

}  // namespace

int main() {
  return measure();
}
