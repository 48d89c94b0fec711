#include "harness/rules/validity.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/rank_records.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

const std::string host_boot = "host-boot";

/// Two tenants that did everything right: two VMs of two ranks, and one VM of one.
std::vector<TenantEvidence> good_tenants() {
  std::vector<TenantEvidence> tenants(2);
  tenants[0].name = "a";
  tenants[0].nodes = {{"t1n1", "boot-1", true}, {"t1n2", "boot-2", true}};
  for (auto& node : tenants[0].nodes) { node.ranks = 2; }
  tenants[0].network_bytes_required = 1000;
  tenants[0].network_bytes_measured = 1000;
  for (auto& tenant : tenants) { tenant.images_per_rank = 2; }
  tenants[1].name = "b";
  tenants[1].nodes = {{"t2n1", "boot-3", true}};
  for (auto& tenant : tenants) {
    const auto per_node = static_cast<std::size_t>(tenant.nodes[0].ranks);
    const auto size = tenant.nodes.size() * per_node;
    for (std::size_t r = 0; r < size; ++r) {
      RankState rank;
      rank.hello = protocol::Hello{.rank = static_cast<std::int64_t>(r),
                                   .size = static_cast<std::int64_t>(size),
                                   .local_rank = static_cast<std::int64_t>(r % per_node),
                                   .hostname = tenant.nodes[r / per_node].hostname};
      rank.ready = protocol::Ready{.parameters_hash = "before"};
      rank.result = protocol::Result{.images_per_second = 10, .parameters_hash = "after"};
      RankState::Window window;
      window.loss = 7.0;
      window.images = 1;
      window.seconds = 0.1;
      rank.samples = {window, window};
      tenant.ranks.push_back(rank);
    }
  }
  return tenants;
}

std::vector<std::string> reasons_of(const std::vector<TenantEvidence>& tenants) {
  return invalid_reasons({.tenants = tenants, .host_boot_ids = {host_boot}});
}

/// The one reason of a trial that is right but for one change.
template <typename Change>
std::string only_reason(Change change) {
  auto tenants = good_tenants();
  change(tenants);
  const auto reasons = reasons_of(tenants);
  CHECK(reasons.size() == 1);
  return reasons.empty() ? "(valid)" : reasons[0];
}

using Tenants = std::vector<TenantEvidence>&;

constexpr std::int64_t half_bytes = 25'557'032L * 2, whole_bytes = 2 * half_bytes;

Workload trains_in(Precision precision) {
  Workload workload;
  workload.backend = Backend::cuda;
  workload.precision = precision;
  return workload;
}

/// Two ranks whose results say this of the bytes that each step reduced.
std::vector<RankState> said_by_ranks(const nlohmann::json& bytes) {
  std::vector<RankState> ranks(2);
  for (auto& rank : ranks) {
    rank.result = test::said<protocol::Result>({{"bytes_allreduced_per_step", bytes}});
  }
  return ranks;
}

}  // namespace

TEST_CASE("a trial that did everything right is valid") {
  CHECK(reasons_of(good_tenants()).empty());
}

TEST_CASE("each reason stands alone") {
  CHECK(only_reason([](Tenants t) { t[0].ranks[2].result.reset(); }) == "RNK-1: a rank 2 did not report");
  CHECK(only_reason([](Tenants t) { t[0].ranks[3].hello.reset(); }) == "RNK-1: a rank 3 did not report");
  CHECK(only_reason([](Tenants t) { t[0].ranks[1].hello->rank = 0; }) ==
        "RNK-1: a rank 1 says rank 0 where 1 was planned");
  CHECK(only_reason([](Tenants t) { t[0].ranks[1].hello->size = 1; }) ==
        "RNK-1: a rank 1 says size 1 where 4 was planned");
  CHECK(only_reason([](Tenants t) { t[0].ranks[2].hello->local_rank = 2; }) ==
        "RNK-1: a rank 2 says local_rank 2 where 0 was planned");
  CHECK(only_reason([](Tenants t) { t[0].ranks[2].hello->hostname = "t1n1"; }) ==
        "RNK-1: a rank 2 ran on t1n1 where t1n2 was planned");
  CHECK(only_reason([](Tenants t) { t[1].ranks[0].result->parameters_hash = "before"; }) ==
        "RNK-3: b rank 0 did not change its parameters");
  CHECK(only_reason([](Tenants t) { t[0].ranks[3].result->parameters_hash = "else"; }) ==
        "RNK-3: a: its ranks hold different parameters");
  CHECK(only_reason([](Tenants t) { t[0].ranks[3].ready->parameters_hash = "else"; }) ==
        "RNK-3: a: its ranks hold different parameters");
  CHECK(only_reason([](Tenants t) { t[0].ranks[0].samples[1].loss = std::nan(""); }) ==
        "RNK-2: a rank 0 has no finite loss");
  CHECK(only_reason([](Tenants t) { t[0].ranks[0].samples[0].loss = INFINITY; }) ==
        "RNK-2: a rank 0 has no finite loss");
  CHECK(only_reason([](Tenants t) { t[0].ranks[0].samples[0].loss.reset(); }) ==
        "RNK-2: a rank 0 has no finite loss");
  CHECK(only_reason([](Tenants t) { t[0].ranks[2].result->images_per_second = 1e308; }) ==
        "RNK-4: a rank 2 says 1e+308 images/s where its samples show 10");
  CHECK(only_reason([](Tenants t) { t[0].ranks[2].hello->hostname = "\x1b[2J"; }) ==
        "RNK-1: a rank 2 ran on \uFFFD[2J where t1n2 was planned");
  CHECK(only_reason([](Tenants t) { t[0].network_bytes_measured.reset(); }) ==
        "NET-4: a: what its network carried could not be read");
  CHECK(only_reason([](Tenants t) { t[0].network_bytes_measured = 999; }) ==
        "NET-4: a: its network carried 999 bytes a node, the all-reduces need 1000");
  CHECK(only_reason([](Tenants t) { t[0].nodes[1].boot_id = host_boot; }) ==
        "VM-1: a t1n2 has no boot id of its own");
  CHECK(only_reason([](Tenants t) { t[0].nodes[1].boot_id = ""; }) ==
        "VM-1: a t1n2 has no boot id of its own");
  CHECK(only_reason([](Tenants t) { t[1].nodes[0].boot_id = "boot-1"; }) ==
        "VM-1: b t2n1 shares its boot id with another VM");
}

TEST_CASE("bare metal has the host's boot id, and shared bare metal its name") {
  auto tenants = good_tenants();
  for (auto& tenant : tenants) {
    for (auto& node : tenant.nodes) { node.has_own_kernel = false, node.boot_id = host_boot; }
  }
  CHECK(reasons_of(tenants).empty());
  // One slice with three ranks on a host, and one with a single rank on another.
  const std::vector<std::string> hosts{"the-host", "the-host", "the-host", "the-other"};
  tenants[0].nodes[0].ranks = 3, tenants[0].nodes[1].ranks = 1;
  tenants[0].nodes[0].host_name = "the-host", tenants[0].nodes[1].host_name = "the-other";
  for (std::size_t r = 0; r < tenants[0].ranks.size(); ++r) {
    tenants[0].ranks[r].hello->hostname = hosts[r];
    tenants[0].ranks[r].hello->local_rank = r % 3;
  }
  CHECK(reasons_of(tenants).empty());
  tenants[0].ranks[3].hello->hostname = "the-host";
  CHECK(reasons_of(tenants) ==
        std::vector<std::string>{"RNK-1: a rank 3 ran on the-host where the-other was planned"});
}

TEST_CASE("bytes that all-reduces must move") {
  // 25,557,032 parameters of 4 bytes; 2 (N-1)/N of them a step
  CHECK(all_reduce_bytes_per_node(1, 10, whole_bytes) == 0);
  CHECK(all_reduce_bytes_per_node(2, 1, whole_bytes) == 102'228'128);
  CHECK(all_reduce_bytes_per_node(2, 10, whole_bytes) == 1'022'281'280);
  CHECK(all_reduce_bytes_per_node(4, 1, whole_bytes) == 153'342'192);
  CHECK(all_reduce_bytes_per_node(2, 10, half_bytes) == 511'140'640);
}

TEST_CASE("gradients in two bytes need half the network, which must have carried that") {
  constexpr std::int64_t steps = 10;
  // As the CUDA trainer counts them: weights in two bytes, the norms' scales and biases in four.
  const auto half = said_by_ranks(half_bytes + 106'240);
  const auto judged = [&](std::int64_t carried) {
    auto tenants = good_tenants();
    tenants[0].network_bytes_required =
        all_reduce_bytes_per_node(2, steps, gradient_bytes_per_step(trains_in(Precision::fp16), half));
    tenants[0].network_bytes_measured = carried;
    return reasons_of(tenants);
  };
  CHECK(judged(steps * (half_bytes + 106'240)).empty());
  for (const std::int64_t carried :
       {std::int64_t{0}, steps * half_bytes / 2, steps * (half_bytes + 106'240) - 1}) {
    INFO(carried);
    REQUIRE(judged(carried).size() == 1);
    CHECK_THAT(judged(carried)[0], virtrain::test::Contains("the all-reduces need 512203040"));
  }
}

TEST_CASE("what ranks say of their gradients never asks for less than two bytes a parameter") {
  const auto fp16 = trains_in(Precision::fp16);
  const auto bytes_if_said = [&](const nlohmann::json& said) {
    return gradient_bytes_per_step(fp16, said_by_ranks(said));
  };
  CHECK(bytes_if_said(half_bytes + 4) == half_bytes + 4);
  CHECK(bytes_if_said(0) == half_bytes);
  CHECK(bytes_if_said(half_bytes / 2) == half_bytes);
  for (const nlohmann::json& useless :
       {nlohmann::json(), nlohmann::json("51114064"), nlohmann::json(5.2e7), nlohmann::json(true),
        nlohmann::json(-1), nlohmann::json(INT64_MAX), nlohmann::json(UINT64_MAX)}) {
    INFO(useless.dump());
    CHECK(bytes_if_said(useless) == whole_bytes);
  }
  CHECK(gradient_bytes_per_step(fp16, {}) == whole_bytes);
  // One rank that says nothing, or more than the others, is enough.
  auto ranks = said_by_ranks(half_bytes);
  CHECK(gradient_bytes_per_step(fp16, ranks) == half_bytes);
  ranks[1].result->bytes_allreduced_per_step = half_bytes + 8;
  CHECK(gradient_bytes_per_step(fp16, ranks) == half_bytes + 8);
  ranks[1].result->bytes_allreduced_per_step.reset();
  CHECK(gradient_bytes_per_step(fp16, ranks) == whole_bytes);
  ranks[1].result.reset();
  CHECK(gradient_bytes_per_step(fp16, ranks) == whole_bytes);
}

TEST_CASE("only CUDA's two-byte precisions reduce less than fp32") {
  const auto half = said_by_ranks(half_bytes);
  CHECK(gradient_bytes_per_step(trains_in(Precision::bf16), half) == half_bytes);
  CHECK(gradient_bytes_per_step(trains_in(Precision::tf32), half) == whole_bytes);
  CHECK(gradient_bytes_per_step(trains_in(Precision::fp32), half) == whole_bytes);
  auto cpu = trains_in(Precision::bf16);
  cpu.backend = Backend::cpu;
  CHECK(gradient_bytes_per_step(cpu, half) == whole_bytes);
}
