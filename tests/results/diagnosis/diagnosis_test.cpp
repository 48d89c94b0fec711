#include "results/diagnosis/diagnosis.h"

#include <algorithm>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "results/diagnosis/diagnosis_table.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

NcclLog log_of(const std::string& text) {
  NcclLogReader job;
  for (const auto& line : split(text, '\n')) { job.take(line); }
  return job.finish();
}

/// Lines as ranks of two nodes print them: rank 0 and 1 on a, 2 and 3 on b.
std::string lines(const std::vector<std::string>& said) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    text += std::string(rank < 2 ? "a" : "b") + ":10" + std::to_string(rank) + ":200 [" +
            std::to_string(rank % 2) + "] NCCL INFO ncclCommInitRank comm 0x1 rank " + std::to_string(rank) +
            " nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x2 - Init START\n";
  }
  for (const auto& one : said) {
    text += one.starts_with("|") ? one.substr(1) + "\n" : "a:100:200 [0] NCCL INFO " + one + "\n";
  }
  return text;
}

const std::vector<std::string> healthy{
    "NCCL version 2.22.3+cuda12.6",
    "Bootstrap : Using bond0:192.0.2.1<0>",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB bond0:192.0.2.1<0>",
    "Using network IB",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
    "Channel 01/0 : 3[1] -> 2[0] via P2P/CUMEM/read",
    "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(0)/GDRDMA",
    "Channel 01/0 : 1[1] -> 2[0] [receive] via NET/IB/1/GDRDMA/Shared",
    "16 coll channels, 16 collnet channels, 8 nvls channels, 16 p2p channels, 2 p2p channels per peer"};

std::vector<std::string> changed(const std::string& begin, const std::vector<std::string>& instead) {
  std::vector<std::string> all;
  for (const auto& one : healthy) {
    if (!one.starts_with(begin)) { all.push_back(one); }
  }
  all.insert(all.end(), instead.begin(), instead.end());
  return all;
}

DiagnosedSide side_of(const std::vector<std::string>& said) {
  return {.files = {"x.log"}, .nccl = log_of(lines(said)), .probes = {}};
}

std::vector<std::string> ids(const Diagnosis& diagnosis) {
  std::vector<std::string> all;
  for (const auto& one : diagnosis.findings) { all.push_back(one.id); }
  return all;
}

Probe all_reduce(double bus) {
  Probe probe;
  probe.name = "all_reduce";
  probe.unit = "B/s";
  probe.value = bus / 1.5;
  probe.bus_bytes_per_second = bus;
  probe.size_bytes = 1 << 30;
  probe.ranks = 4;
  return probe;
}

}  // namespace

TEST_CASE("NCCL's lines of two nodes become one job") {
  const auto log = log_of(lines(healthy));
  CHECK(log.lines == 13);
  CHECK(log.version == "2.22.3+cuda12.6");
  CHECK(log.ranks == 4);
  CHECK(log.hosts == std::set<std::string>{"a", "b"});
  CHECK(log.within_nodes == std::map<std::string, std::int64_t>{{"P2P/CUMEM/read", 2}});
  CHECK(log.between_nodes == std::map<std::string, std::int64_t>{{"NET/IB/GDRDMA", 2}});
  CHECK(log.channels == 16);
  CHECK(log.nvls_channels == 8);
  CHECK(log.network == "IB");
  CHECK(log.bootstrap == "bond0");
  CHECK(log.adapters == std::set<std::string>{"mlx5_0:1/IB", "mlx5_1:1/IB"});
  CHECK(log.relaxed_ordering);
}

TEST_CASE("lines of NCCL before 2.6, and of ranks without a host's name") {
  const auto log = log_of(
      " [0] NCCL INFO Ring 00 : 0[1b000] -> 7[41000] via direct shared memory\n"
      " [0] NCCL INFO Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0\n"
      " [0] NCCL INFO Bootstrap : Using [0]br0:192.0.2.16<0>\n"
      " [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.\n"
      "n1:1:2 [4] transport/net_ib.cc:1192 NCCL WARN NET/IB : Got completion with error 4\n"
      "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)\n");
  CHECK(log.within_nodes == std::map<std::string, std::int64_t>{{"SHM", 1}});
  CHECK(log.between_nodes == std::map<std::string, std::int64_t>{{"NET/IB", 1}});
  CHECK(log.bootstrap == "br0");
  CHECK(log.variables.at("NCCL_IB_DISABLE") == "0");
  CHECK(log.warnings == std::set<std::string>{"NET/IB : Got completion with error 4"});
  CHECK(log.without_gdr == std::set<std::string>{"for GPU 2[2] / HCA 0 (distance 3 >= 2)"});
}

TEST_CASE("a network within a node is one between ranks of the same host") {
  const auto log = log_of(lines({"Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
                                 "Channel 00/0 : 0[0] -> 2[0] via NET/Socket/0"}));
  CHECK(log.within_nodes.at("NET/Socket") == 1);
  CHECK(log.between_nodes.at("NET/Socket") == 1);
}

TEST_CASE("what is no connection of NCCL's changes nothing, and foreign text stays bounded and plain") {
  for (const auto* line :
       {"x", "NCCL INFO Channel 00/02 :    0   1", "a:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 0[0] via P2P",
        "a:1:2 [0] NCCL INFO Channel 00 : -1[0] -> 0[0] via P2P",
        "a:1:2 [0] NCCL INFO Channel 00 : 1[0] -> 0[0] via \x1b[2J",
        "a:1:2 [0] NCCL INFO Ring 0 : x -> y via P2P"}) {
    INFO(line);
    CHECK_FALSE(nccl_connection_in(line));
  }
  std::string flood;
  for (int i = 0; i < 1000; ++i) {
    flood += "h" + std::to_string(i) + ":1:2 [0] NCCL INFO NCCL_X" + std::to_string(i) +
             " set by environment to \x1b[2J\n" + "NCCL WARN " + std::string(5000, 'w') + std::to_string(i) +
             "\n";
  }
  const auto log = log_of(flood);
  CHECK(log.hosts.size() <= 64);
  CHECK(log.variables.size() <= 64);
  CHECK(log.warnings.size() <= NcclLog::most_warnings);
  CHECK(log.variables.begin()->second.find('\x1b') == std::string::npos);
}

TEST_CASE("a healthy job is accused of nothing, alone and beside another") {
  const auto good = side_of(healthy);
  CHECK(diagnose(good, std::nullopt).findings.empty());
  CHECK(diagnose(good, good).findings.empty());
  // Cards without NVLink SHARP, one node, sockets by choice, fewer ranks: no fault of the machine's.
  for (const auto& other :
       {changed("16 coll", {"2 coll channels, 0 nvls channels"}), changed("Channel", {}),
        changed("NET/IB", {"NET/IB : No device found."}), changed("Channel 00/0 : 1", {})}) {
    CHECK(diagnose(side_of(other), std::nullopt).findings.empty());
  }
}

TEST_CASE("planted faults are named first or second, with the loss that was measured") {
  struct Planted {
    const char* id;
    std::vector<std::string> said;
    bool alone = false;  ///< found without a baseline, too
  };
  const std::vector<Planted> all{
      {"NCL-1",
       changed("Channel 0", {"Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct",
                             "Channel 00/0 : 1[1] -> 2[0] via NET/IB/0/GDRDMA"}),
       true},
      {"NCL-1",
       changed("Channel 0", {"Channel 00/0 : 0[0] -> 1[1] via NET/IB/0/GDRDMA",
                             "Channel 00/0 : 1[1] -> 2[0] via NET/IB/0/GDRDMA"}),
       true},
      {"NCL-2", changed("Channel 00/0 : 1", {"Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0"}), false},
      {"NCL-2",
       changed("Channel 0",
               {"Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00/0 : 1[1] -> 2[0] via NET/IB/0",
                "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"}),
       true},
      {"NCL-3",
       changed("Using network", {"Using network Socket", "Channel 00/0 : 0[0] -> 3[0] via NET/Socket/0"}),
       true},
      {"NCL-4", changed("NET/IB", {"NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB bond0:192.0.2.1<0>"})},
      {"NCL-5", changed("16 coll", {"4 coll channels, 4 collnet channels, 8 nvls channels, 4 p2p channels"})},
      {"NCL-6", changed("NET/IB", {"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB; OOB bond0:192.0.2.1<0>"})},
      {"NCL-7",
       changed("16 coll", {"16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels"})},
      {"NCL-8", changed("NCCL version", {"NCCL version 2.19.3+cuda12.3"})},
      {"NCL-9", changed("-", {"NCCL_P2P_DISABLE set by environment to 1."}), true},
      {"NCL-9",
       changed("16 coll", {"4 coll channels, 0 collnet channels, 8 nvls channels, 4 p2p channels",
                           "NCCL_MAX_NCHANNELS set by environment to 4."}),
       true},
      {"NCL-10",
       changed("-", {"|a:1:2 [0] init.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'"}), true},
      {"NCL-11",
       changed("-", {"|a:1:2 [0] init.cc:1 NCCL WARN Missing \"iommu=pt\" from kernel command line"}), true}};
  auto baseline = side_of(healthy);
  baseline.probes = {all_reduce(320e9)};
  for (const auto& planted : all) {
    INFO(planted.id);
    auto side = side_of(planted.said);
    side.probes = {all_reduce(180e9)};
    const auto found = diagnose(side, baseline);
    const auto named = ids(found);
    const auto place = std::ranges::find(named, planted.id) - named.begin();
    CHECK(place < std::min<std::ptrdiff_t>(2, std::ssize(named)));
    REQUIRE(found.losses.size() == 1);
    CHECK(found.losses[0].loss() == Approx(1 - 180.0 / 320));
    REQUIRE_FALSE(found.findings.empty());
    CHECK(found.findings[0].cost == "at most 44 % of all_reduce here");
    const auto alone = ids(diagnose(side, std::nullopt));
    CHECK((std::ranges::find(alone, planted.id) != alone.end()) == planted.alone);
  }
}

TEST_CASE("what cannot be told is said, with what would tell it") {
  DiagnosedSide figures;
  figures.probes = {all_reduce(1e9)};
  const auto found = diagnose(figures, std::nullopt);
  CHECK(found.findings.empty());
  CHECK_THAT(join(found.unknown, "\n"), Contains("NCCL_DEBUG=INFO") && Contains("--baseline"));
  CHECK_THAT(to_text(found, 80), Contains("cannot tell ways, adapters and channels of NCCL"));
  CHECK(render(diagnosis_table(
                   diagnose(side_of(changed("-", {"NCCL_ALGO set by environment to Tree"})), std::nullopt)),
               Format::json)
            .find("NCCL_ALGO=Tree") != std::string::npos);
}

TEST_CASE("figures alone name the loss and where to look") {
  DiagnosedSide vm, metal;
  vm.probes = {all_reduce(180e9)};
  metal.probes = {all_reduce(320e9)};
  CHECK(ids(diagnose(vm, metal)) == std::vector<std::string>{"NCL-12"});
  CHECK_THAT(to_text(diagnose(vm, metal), 0),
             Contains("all_reduce: 180 GB/s, 56.2 % of the baseline's 320 GB/s") && Contains("DirectTrans"));
  vm.probes = {all_reduce(310e9)};
  CHECK(diagnose(vm, metal).findings.empty());
}

TEST_CASE("figures are told in their own units, and a time that grows is a loss") {
  const auto time = [](double seconds) {
    Probe probe;
    probe.name = "round_trip";
    probe.unit = "s";
    probe.value = seconds;
    return probe;
  };
  DiagnosedSide vm, metal;
  vm.probes = {time(20e-6)};
  metal.probes = {time(5e-6)};
  const auto found = diagnose(vm, metal);
  REQUIRE(found.losses.size() == 1);
  CHECK(found.losses[0].loss() == Approx(0.75));
  CHECK_THAT(to_text(found, 0),
             Contains("round_trip: ") && Contains("25.0 % of its rate") && !Contains("B/s"));
  CHECK(diagnose(metal, vm).losses[0].loss() == Approx(-3));
}

TEST_CASE("logs of two different jobs are not held against each other") {
  const auto one = side_of(changed("16 coll", {"4 coll channels, 0 nvls channels"}));
  DiagnosedSide other{.files = {"y.log"}, .nccl = log_of(lines(healthy)), .probes = {}};
  other.nccl.ranks = 8;
  const auto found = diagnose(one, other);
  CHECK(found.findings.empty());
  CHECK_THAT(join(found.unknown, "\n"),
             Contains("4 ranks on 2 hosts here, 8 ranks on 2 hosts in the baseline"));
}

TEST_CASE("what a log shows and what the host shows are one cause where they explain each other") {
  const auto check = [](const char* id, const char* found, CheckStatus status = CheckStatus::failed) {
    return virtrain::Finding{id, Severity::warns, status, found, status == CheckStatus::failed ? "mend" : ""};
  };
  auto side = side_of(changed("Channel 0", {"Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct",
                                            "Channel 00/0 : 1[1] -> 2[0] via NET/IB/0/GDRDMA"}));
  side.probes = {all_reduce(160e9)};
  auto metal = side_of(healthy);
  metal.probes = {all_reduce(320e9)};
  side.host = DiagnosedHost{.name = "h",
                            .checks = {check("CH-1", "no vsock"), check("MEM-1", "no page is free"),
                                       check("ACS-2", "ACS redirects: it may halve"),
                                       check("LNK-1", "0000:b1:00.0 runs 4 of 16 lanes"),
                                       check("NEW-1", "something else"), check("CPU-1", "", CheckStatus::ok)},
                            .functions = {},
                            .node_of_cpu = {},
                            .gpus = 2};
  side.host->checks[3].loss = 0.75;
  const auto found = diagnose(side, metal);
  CHECK(ids(found) == std::vector<std::string>{"ACS-2", "LNK-1", "MEM-1", "NEW-1"});
  CHECK(found.findings[0].grade == EvidenceGrade::explained);
  CHECK_THAT(found.findings[0].evidence,
             Contains("NCL-1") && Contains("SHM/direct") && Contains("redirects"));
  CHECK(found.findings[0].cost == "at most 50 % of all_reduce here");
  CHECK(found.findings[1].loss == Approx(0.75));
  side.host->checks = {check("ACS-2", "applies when root", CheckStatus::skipped)};
  CHECK_THAT(to_text(diagnose(side, metal), 0), Contains("cannot tell ACS-2 of the host: needs the config"));
}

TEST_CASE("a diagnosis ends with a shipped scenario that measures again what is slow") {
  const std::vector<std::string> is_slow{"Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"};
  const auto over_hosts = diagnose(side_of(changed("Channel 00/0 : 0[0]", is_slow)), std::nullopt);
  CHECK(over_hosts.scenario == "two-hosts-allreduce");
  CHECK_THAT(to_text(over_hosts, 0), Contains("virtrain run two-hosts-allreduce --label before"));
  CHECK(diagnose(side_of(healthy), std::nullopt).scenario.empty());
  DiagnosedSide of_host{.host = DiagnosedHost{.name = "h", .checks = {}, .functions = {}, .node_of_cpu = {}}};
  of_host.host->checks.push_back({"MEM-4", Severity::warns, CheckStatus::failed, "KSM is on", "turn it off"});
  CHECK(diagnose(of_host, std::nullopt).scenario == "quickstart");
  of_host.host->gpus = 2;
  CHECK(diagnose(of_host, std::nullopt).scenario == "one-vm-two-gpus");
  for (const std::string name : {"two-hosts-allreduce", "one-vm-two-gpus", "quickstart"}) {
    CHECK(read_file(VIRTRAIN_SOURCE_DIR "/scenarios/" + name + ".yaml"));
  }
}

TEST_CASE("each rule of the diagnosis is in the troubleshooting page") {
  const auto page = read_file(VIRTRAIN_SOURCE_DIR "/docs/troubleshooting.md").value_or("");
  for (const auto& rule : diagnosis_rules()) {
    INFO(rule.id);
    CHECK_THAT(page, Contains(rule.id));
    CHECK_THAT(page, Contains(rule.title));
  }
}
