// Planted answers: what each of them makes of a search.

#include <fmt/format.h>

#include "common/error.h"
#include "harness/experiment/judge.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "harness/security/canary_tool.h"
#include "harness/security/device_memory.h"
#include "harness/security/device_peer.h"
#include "harness/security/foreign_devices.h"
#include "harness/security/guest_channels.h"
#include "harness/security/killed_run.h"
#include "harness/security/network_searches.h"
#include "harness/trial/live_nodes.h"
#include "tests/support/canary_lines.h"
#include "tests/support/catch.h"
#include "vmctl/host/local_host.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

TEST_CASE("without a control nothing is not found, and a leak needs none") {
  LeakEvidence evidence{.control = true, .scanned = 10, .total = 10};
  CHECK(judge(evidence) == LeakResult::not_found);
  evidence.control = false;
  CHECK(judge(evidence) == LeakResult::inconclusive);
  CHECK_THAT(to_record(evidence, "p", "t").reason, Contains("control"));
  evidence.control.reset();
  CHECK(judge(evidence) == LeakResult::inconclusive);
  evidence.control = true;
  evidence.scanned = 0;
  CHECK(judge(evidence) == LeakResult::inconclusive);
  CHECK(to_record(evidence, "p", "t").reason == "nothing was scanned");
  evidence.scanned = 10;
  evidence.failure = "the node was lost";
  CHECK(judge(evidence) == LeakResult::inconclusive);
  evidence.lacks = "no such device";
  CHECK(judge(evidence) == LeakResult::not_possible);
  evidence.leaks = {"a", "b", "c", "d", "e"};
  CHECK(judge(evidence) == LeakResult::leak);
  CHECK(to_record(evidence, "p", "t").found == "a; b; c; and 2 more");
}

TEST_CASE("a guest's own ports are the agent's and the planted one, and any other one is a leak") {
  const std::string planted = "org.virtrain.planted.t2n1";
  const std::vector<GuestPort> own{{"vport1p1", "org.virtrain.agent.0"}, {"vport1p2", planted}};
  CHECK(judge(channel_evidence(own, planted)) == LeakResult::not_found);
  CHECK(judge(channel_evidence({own[0]}, planted)) == LeakResult::inconclusive);
  CHECK(judge(channel_evidence({own[1]}, planted)) == LeakResult::inconclusive);
  CHECK(judge(channel_evidence({own[0], {"vport1p2", ""}}, "")) == LeakResult::leak);
  CHECK(judge(channel_evidence({own[0]}, "")) == LeakResult::inconclusive);
  CHECK(judge(channel_evidence({}, planted)) == LeakResult::inconclusive);
  for (const auto* foreign :
       {"org.virtrain.planted.t1n1", "org.virtrain.agent.0", "com.redhat.spice.0", ""}) {
    CAPTURE(foreign);
    auto seen = own;
    seen.push_back({"vport2p1", foreign});
    const auto evidence = channel_evidence(seen, planted);
    CHECK(judge(evidence) == LeakResult::leak);
    CHECK(evidence.leaks == std::vector{fmt::format("port vport2p1 named '{}'", foreign)});
  }
}

TEST_CASE("what a node says of a search is read strictly") {
  const std::string good =
      R"({"record":"searched","scanned_bytes":50,"total_bytes":200,"found":[{"canary":"own","path":"/tmp/x","count":1,"first":3,"last":3},{"canary":"theirs","path":"/dev/v\u001bda","count":9,"first":4096,"last":8192}]})";
  const auto evidence = evidence_of(read_answer<canary::SearchRequest>("noise\n" + good + "\n"), {"own"});
  CHECK(evidence.control == true);
  REQUIRE(evidence.leaks.size() == 1);
  CHECK_THAT(evidence.leaks[0], Contains("theirs in ") && Contains("9 times in bytes 4096 to 8192"));
  CHECK(evidence.leaks[0].find('\x1b') == std::string::npos);
  CHECK(evidence.scanned / evidence.total == 0.25);
  CHECK(evidence_of(read_answer<canary::SearchRequest>(good), {"own", "image"}).control == false);
  for (const char* bad :
       {"", "{}", R"({"record":"searched"})",
        R"({"record":"searched","scanned_bytes":-1,"total_bytes":2,"found":[]})",
        R"({"record":"searched","scanned_bytes":3,"total_bytes":2,"found":[]})",
        R"({"record":"searched","scanned_bytes":1,"total_bytes":2,"found":{}})",
        R"({"record":"searched","scanned_bytes":1,"total_bytes":2,"found":[{"canary":7}]})"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(read_answer<canary::SearchRequest>(bad), Error);
  }
  CHECK_THROWS_AS(
      read_answer<canary::ListenRequest>(R"({"record":"listening","mac":"a","link_local":"b","vsock":1})"),
      Error);
  CHECK_THROWS_AS(read_answer<canary::ReachRequest>(
                      R"({"record":"reached","answers":[],"heard":[7],"failed":[],"scans":[]})"),
                  Error);
  const std::string scan =
      R"({"record":"reached","answers":[],"heard":[],"failed":[],"scans":[{"target":"s","scanned":2,"total":2,"answered":1,"open":[22],"closed":[]}]})";
  CHECK(read_answer<canary::ReachRequest>(scan).scans.at(0).open == std::vector<std::uint16_t>{22});
  for (const auto& [good_part, bad] : {std::pair{"[22]", "[65536]"}, std::pair{"[22]", "[-1]"},
                                       std::pair{"[22]", "7"}, std::pair{"\"total\":2", "\"total\":1"}}) {
    auto odd = scan;
    odd.replace(odd.find(good_part), std::string(good_part).size(), bad);
    CHECK_THROWS_AS(read_answer<canary::ReachRequest>(odd), Error);
  }
}

TEST_CASE("requests to virtrain-canary and its answers have the bytes that they always had") {
  using namespace canary;
  const Canary own{"tenant-b's own", "vt-canary-aaaaaaaaaaaaaaaaaaaaaa"};
  const Canary theirs{"tenant-a's canary", "vt-canary-bbbbbbbbbbbbbbbbbbbbbb"};
  const auto both = texts_of({own, theirs});
  CHECK(request_text(SearchRequest{both, {"/dev/shm", "/tmp"}, UINT64_MAX, 180}) == test::search_line);
  CHECK(request_text(MemoryRequest{{"0000:00:05.0"}}) == test::memory_line);
  CHECK(request_text(PeerRequest{
            both,
            own.name,
            {"/sys/bus/pci/devices/0000:00:06.0/resource2"},
            {{"0000:03:00.0 region 2", 0xfffffffffffff000, 4 << 20}, {"memory of the host", 0x1000, 4096}},
            60}) == test::peer_line);
  CHECK(request_text(FunctionsRequest{{"0x8086:0x29c0", "0x1af4:0x10"}}) == test::functions_line);
  CHECK(request_text(FillRequest{{"/dev/nvme0n1"}, own.text, 240}) == test::fill_line);
  CHECK(request_text(ListenRequest{"10.77.0.1", "10.77.200.1", {1024, 40'000}, 47'101, own.text}) ==
        test::listen_line);
  using enum TargetKind;
  CHECK(request_text(ReachRequest{
            "10.77.0.1",
            "10.77.200.3",
            {{tcp4, "tcp/10.77.200.1 port 22", "10.77.200.1", 22},
             {tcp6, "ipv6/fe80::a port 22", "fe80::a", 22},
             {vsock, "vsock/CID 3 port 47101", "", 47'101, 3},
             {arp, "arp/10.77.200.1", "10.77.200.1"},
             {ping6, "ping/ff02::1", "ff02::1"}},
            both,
            {{"tcp-scan", "10.77.200.1", "52:54:00:00:00:0a"},
             {"tcp-scan-control", "10.77.200.2", "52:54:00:00:00:0b", {1024, 40'000}}}}) == test::reach_line);

  CHECK(read_answer<SearchRequest>(test::searched_line).found.at(1).last == (std::uint64_t{1} << 53) + 1);
  CHECK(read_answer<MemoryRequest>(test::found_memory_line).paths.size() == 1);
  CHECK_THAT(read_answer(test::peer_reads_line, PeerRequest{.ranges{{}}}).foreign.at(0).refused,
             Contains("not permitted"));
  CHECK(read_answer<FunctionsRequest>(test::functions_seen_line).functions.size() == 2);
  CHECK(read_answer<FillRequest>(test::filled_line).total == 7);
  CHECK(read_answer<ListenRequest>(test::listening_line).link_local == "fe80::a");
  CHECK(read_answer<ReachRequest>(test::reached_line).scans.at(1).closed.size() == 1);
}

TEST_CASE("what a node answers beyond every bound is refused, and no number is rounded to fit") {
  const auto searched = [](const std::string& scanned, const std::string& total, const std::string& found) {
    return fmt::format(R"({{"record":"searched","scanned_bytes":{},"total_bytes":{},"found":[{}]}})", scanned,
                       total, found);
  };
  const auto refusal = [&](const std::string& line) -> std::string {
    try {
      read_answer<canary::SearchRequest>(line);
      return "";
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::trial_failed);
      return error.what();
    }
  };
  CHECK(refusal(searched("18446744073709551615", "18446744073709551615", "")).empty());
  // The same as real numbers.
  CHECK_THAT(refusal(searched("9007199254740993", "9007199254740992", "")), Contains("'scanned_bytes'"));
  for (const char* number : {"18446744073709551616", "1e3", "2.0", "-1", "\"1\"", "null"}) {
    CAPTURE(number);
    CHECK_THAT(refusal(searched(number, "18446744073709551615", "")), Contains("'scanned_bytes'"));
  }
  const auto finding = [](std::size_t bytes) {
    return fmt::format(R"({{"canary":"c","path":"{}","count":1,"first":0,"last":0}})",
                       std::string(bytes, 'p'));
  };
  CHECK(refusal(searched("1", "2", finding(200))).empty());
  CHECK_THAT(refusal(searched("1", "2", finding(201))), Contains("'found'"));
  std::string many = finding(1);
  for (int i = 1; i < 8; ++i) { many += "," + finding(1); }
  CHECK(refusal(searched("1", "2", many)).empty());
  CHECK_THAT(refusal(searched("1", "2", many + "," + finding(1))), Contains("a list of at most 8"));
}

TEST_CASE("a gate: a leak is 1, an inconclusive search 5, what is not possible none of these") {
  using results::LeakSearch;
  LeakSearch leak, open, impossible;
  leak.result = "leak";
  open.result = "inconclusive";
  impossible.result = "not_possible";
  CHECK(judge_security(std::vector{leak, open}) == 1);
  CHECK(judge_security(std::vector{open, impossible}) == 5);
  CHECK(judge_security(std::vector{impossible}) == 0);
}

TEST_CASE("what a tenant finds in a device: the share, its own canary as control, and the cure of a leak") {
  vmctl::PlacedDevice disk;
  disk.grant.address = "0000:00:11.0";
  disk.name = "NVMe";
  constexpr std::uint64_t mib = 1 << 20;
  const canary::Filled filled{12 * mib, 16 * mib};
  canary::Searched search{16 * mib, 16 * mib, {}};
  const auto clean = device_evidence(disk, filled, search, true);
  CHECK(judge(clean) == LeakResult::not_found);
  CHECK(clean.scanned / clean.total == 0.75);  // where the first tenant wrote nothing, nothing can be found
  CHECK(clean.limits.empty());
  CHECK(judge(device_evidence(disk, filled, search, false)) == LeakResult::inconclusive);
  search.scanned_bytes = 4 * mib;
  CHECK(device_evidence(disk, filled, search, true).scanned == 4 * mib);
  CHECK(judge(device_evidence(disk, {}, search, true)) == LeakResult::inconclusive);

  search.found = {{"tenant-a's canary", "/dev/nvme0n1", 9, 0, 8192}};
  const auto leak =
      to_record(device_evidence(disk, filled, search, false), device_memory_search, "b after a");
  CHECK(leak.result == "leak");
  CHECK(leak.found == "tenant-a's canary on 0000:00:11.0 (NVMe) in /dev/nvme0n1, 9 times in bytes 0 to 8192");
  CHECK(leak.reason == "cure: devices.between_tenants: erase");

  using enum vmctl::BetweenTenants;
  using enum vmctl::GrantKind;
  const std::string region = "/sys/bus/pci/devices/0000:05:00.0/resource2";
  const auto cure = [](vmctl::GrantKind kind, vmctl::BetweenTenants policy, const std::string& path) {
    return cure_for({.kind = kind, .address = "0000:00:11.0", .between_tenants = policy}, path);
  };
  CHECK_THAT(cure(passthrough, reset, "/dev/nvme0n1"), Contains("cure: devices.between_tenants: erase"));
  CHECK_THAT(cure(passthrough, erase, "/dev/nvme0n1"), Contains("erase did not clear it"));
  CHECK_THAT(cure(passthrough, none, region), Contains("between_tenants: reset"));
  CHECK_THAT(cure(virtual_function, reset, region), Contains("reset did not clear it"));
  // between_tenants is refused for vGPUs, so it is no cure there.
  CHECK_THAT(cure(vendor_vfio, none, region), Contains("vGPU manager did not clear it"));
  CHECK_THAT(cure(mdev, none, region), Contains("vGPU manager did not clear it"));
}

TEST_CASE("what a node says of a device's memory is read strictly") {
  const auto memory = read_answer<canary::MemoryRequest>(
      R"({"record":"memory","paths":["/dev/nvme0n1"],"holds_data":true,"lacks":""})");
  CHECK(memory.paths == std::vector<std::string>{"/dev/nvme0n1"});
  CHECK(memory.holds_data);
  CHECK(memory.lacks.empty());
  CHECK_THROWS_AS(
      read_answer<canary::MemoryRequest>(R"({"record":"memory","paths":[7],"holds_data":true,"lacks":""})"),
      Error);
  CHECK_THROWS_AS(read_answer<canary::MemoryRequest>(R"({"record":"memory","paths":[],"lacks":""})"), Error);
  CHECK_THROWS_AS(
      read_answer<canary::MemoryRequest>(R"({"record":"memory","paths":[],"holds_data":false,"lacks":7})"),
      Error);
  const auto fill =
      read_answer<canary::FillRequest>(R"({"record":"filled","bytes":5,"total":7,"read_back":true})");
  CHECK(fill.bytes == 5);
  CHECK(fill.total == 7);
  CHECK(fill.read_back);
  for (const char* bad :
       {R"({"record":"filled","bytes":8,"total":7,"read_back":false})",
        R"({"record":"filled","bytes":-1,"total":7,"read_back":false})",
        R"({"record":"filled","total":7,"read_back":false})", R"({"record":"filled","bytes":5,"total":7})",
        R"({"record":"filled","bytes":5,"total":7,"read_back":1})", ""}) {
    CHECK_THROWS_AS(read_answer<canary::FillRequest>(bad), Error);
  }
}

TEST_CASE("functions that a VM sees are its own or a leak, and in a slice those count that it can write to") {
  const std::string said =
      R"({"record":"functions","total":9,"others":2,"opened":1,"control":true,"functions":[)"
      R"({"address":"0000:41:00.0","model":"0x10de:0x20f1","opened":["resource1"]},)"
      R"({"address":"0000:42:00.0","model":"0x10de:0x20f1","opened":[]}]})";
  const auto seen = read_answer<canary::FunctionsRequest>(said);
  const auto vm = to_record(foreign_devices(seen, true), foreign_devices_search, "t");
  CHECK(vm.result == "leak");
  CHECK(vm.found == "0000:41:00.0 (0x10de:0x20f1) with resource1; 0000:42:00.0 (0x10de:0x20f1)");
  CHECK(vm.total == 9);
  const auto slice = to_record(foreign_devices(seen, false), foreign_devices_search, "t");
  CHECK(slice.found == "0000:41:00.0 (0x10de:0x20f1) with resource1");

  canary::Functions apart{
      .total = 7, .others = 7, .control = true, .functions = {{"0000:41:00.0", "0x10de:0x20f1", {}}}};
  CHECK(judge(foreign_devices(apart, false)) == LeakResult::not_found);
  CHECK(judge(foreign_devices(apart, true)) == LeakResult::leak);
  apart.control = false;
  CHECK(judge(foreign_devices(apart, false)) == LeakResult::inconclusive);
  CHECK(judge(foreign_devices({.control = true}, true)) == LeakResult::not_possible);
  for (const char* bad :
       {R"({"record":"functions","total":1,"others":2,"opened":0,"control":true,"functions":[]})",
        R"({"record":"functions","total":3,"others":2,"opened":3,"control":true,"functions":[]})",
        R"({"record":"functions","total":3,"others":2,"opened":0,"functions":[]})",
        R"({"record":"functions","total":3,"others":2,"opened":0,"control":true,"functions":[7]})"}) {
    CHECK_THROWS_AS(read_answer<canary::FunctionsRequest>(bad), Error);
  }
}

namespace {

/// What a node says of its device, which read a region of 4 MiB of another tenant's and a page of the host's.
const std::string peer_answer =
    R"({"record":"peer","memory":[{"scanned":4096,"total":4096,"found":["own"],"refused":""}],)"
    R"("devices":[{"scanned":32768,"total":65536,"found":["own"],"refused":""}],)"
    R"("foreign":[{"scanned":32768,"total":4194304,"found":[],"refused":""},)"
    R"({"scanned":4096,"total":4096,"found":["own"],"refused":""}]})";
const std::vector<PeerRange> peer_ranges{{{"0000:03:00.0 region 2", 0x8000000000, 4 << 20}, true},
                                         {{"memory of the host", 0x1000, 4096}}};

/// About as many ranges.
const canary::PeerRequest peer_request{.ranges{peer_ranges.begin(), peer_ranges.end()}};

vmctl::PlacedDevice engine_of(const char* vendor) {
  vmctl::PlacedDevice device;
  device.vendor = vendor;
  return device;
}

LeakEvidence peers_of(const canary::PeerReads& seen, const char* vendor = "0x1234") {
  return peer_evidence(seen, peer_ranges, "own", engine_of(vendor));
}

}  // namespace

TEST_CASE("what a device reads of others is a leak, and without its controls nothing is known") {
  vmctl::PlacedDevice device;
  device.grant.address = "0000:03:00.0";
  device.bars = {{.index = 0, .address = 0xfe000000, .bytes = 256},
                 {.index = 2, .address = 0x8000000000, .bytes = 4 << 20, .is_prefetchable = true}};
  const auto ranges = ranges_of(device);
  REQUIRE(ranges.size() == 1);  // registers hold no canary
  CHECK(ranges[0].address == peer_ranges[0].address);
  CHECK(ranges[0].name == peer_ranges[0].name);
  const auto apart = read_answer(peer_answer, peer_request);
  const auto clean = peers_of(apart);
  CHECK(judge(clean) == LeakResult::not_found);
  CHECK(clean.scanned == 32768 + 4096);
  CHECK(clean.total == 4194304 + 4096);
  CHECK(clean.limits.empty());
  CHECK(peers_of(apart, "0x10de").limits.empty());

  auto leaking = apart;
  leaking.foreign[0].found = {"tenant-a's canary"};
  const auto leak = to_record(peers_of(leaking), device_peer_search, "t");
  CHECK(leak.result == "leak");
  CHECK(leak.found == "tenant-a's canary in 0000:03:00.0 region 2 (at 0x8000000000)");

  for (const auto control : {&canary::PeerReads::memory, &canary::PeerReads::devices}) {
    auto deaf = apart;
    (deaf.*control)[0].found.clear();
    CHECK(judge(peers_of(deaf)) == LeakResult::inconclusive);
  }
  auto alone = apart;  // nothing shows that its engine reads devices
  alone.devices.clear();
  const auto host_only = peers_of(alone);
  CHECK(judge(host_only) == LeakResult::not_found);
  CHECK(host_only.scanned == 4096);
  CHECK_THAT(host_only.limits, Contains("no second device") && !Contains("GPU"));
  CHECK_THAT(peers_of(alone, "0x10de").limits, Contains("no second device") && Contains("a GPU reads"));
  CHECK(judge(no_known_engine()) == LeakResult::not_possible);
  CHECK_THAT(no_known_engine().lacks, Contains("NVIDIA GPUs"));

  const auto unknown = read_answer(
      R"({"record":"peer","memory":[],"devices":[],"foreign":[],"lacks":"no \u001bengine"})", peer_request);
  CHECK(judge(peers_of(unknown)) == LeakResult::not_possible);
  CHECK_THAT(peers_of(unknown).lacks, Contains("engine") && !Contains("\x1b"));
  CHECK_THROWS_AS(read_answer<canary::PeerRequest>(peer_answer), Error);
  CHECK_THROWS_AS(read_answer<canary::PeerRequest>(R"({"record":"peer","memory":[],"devices":[]})"), Error);
  for (const char* odd :
       {R"("scanned":2,"total":1,"found":[],"refused":"")", R"("scanned":1,"total":1,"found":[])"}) {
    CHECK_THROWS_AS(read_answer<canary::PeerRequest>(fmt::format(
                        R"({{"record":"peer","memory":[{{{}}}],"devices":[],"foreign":[]}})", odd)),
                    Error);
  }
}

TEST_CASE(
    "what a device could not be told to read limits the result, and where it is all, nothing is known") {
  const std::string why = "map /dev/mem at 0x8000000000: Operation not permitted";
  auto partly = read_answer(peer_answer, peer_request);
  partly.foreign[0] = {0, 4194304, {}, why};
  const auto host_only = peers_of(partly);
  CHECK(judge(host_only) == LeakResult::not_found);
  CHECK(host_only.scanned == 4096);
  CHECK_THAT(host_only.limits, Contains("could not be started: " + why));
  auto leaking = partly;
  leaking.foreign[1].found = {"the host's canary"};
  CHECK(judge(peers_of(leaking)) == LeakResult::leak);
  auto nothing = partly;
  nothing.foreign[1] = {0, 4096, {}, why};
  CHECK(judge(peers_of(nothing)) == LeakResult::inconclusive);
  CHECK_THAT(to_record(peers_of(nothing), device_peer_search, "t").reason, Contains(why));
  auto deaf = partly;  // the reason is better than "the control was not found"
  deaf.devices[0] = {0, 65536, {}, why};
  CHECK_THAT(to_record(peers_of(deaf), device_peer_search, "t").reason, Contains(why));
}

TEST_CASE("what a run that is killed tells is read back as it was told") {
  KilledRun run{"20261120t083012-7f3a2b", "0000:00:11.0", make_canary("tenant-a's canary"), {96, 128, true}};
  const auto read = parse_killed_run("20261120t083012-7f3a2b\n" + line_of(run) + "\n");
  CHECK(read.experiment == run.experiment);
  CHECK(read.device == run.device);
  CHECK(read.canary.name == run.canary.name);
  CHECK(read.canary.text == run.canary.text);
  CHECK(read.filled.bytes == 96);
  CHECK(read.filled.total == 128);
  CHECK(read.filled.read_back);
  run.canary.text = "short";
  CHECK_THROWS_AS(parse_killed_run(line_of(run)), Error);
  run.lacks = "the disk holds data";
  CHECK(parse_killed_run(line_of(run)).lacks == run.lacks);
  CHECK_THROWS_AS(parse_killed_run(R"({"record":"device_filled","experiment":7})"), Error);
  CHECK_THROWS_AS(parse_killed_run("nothing\n"), Error);
}

TEST_CASE("a run that was to be killed and ends otherwise says why") {
  const auto host = std::make_unique<vmctl::LocalHost>("/");
  const auto run = [&](const std::string& script) { return kill_a_run(*host, {"sh", "-c", script}); };
  CHECK_THAT(run("echo 20261120t083012-7f3a2b >&2; echo the cores are busy >&2; exit 75").failure,
             Contains("exit status 75: the cores are busy"));
  const auto line = line_of({"", "0000:00:11.0", make_canary("a"), {96, 128, false}});
  CHECK_THAT(run("echo '" + line + "'; exit 0").failure, Contains("exit status 0"));
  const auto killed = run("echo '" + line + "'; kill -9 $$");
  CHECK(killed.failure.empty());
  CHECK(killed.device == "0000:00:11.0");
  CHECK_THAT(run("kill -9 $$").failure, Contains("exit status 137"));
}

TEST_CASE("a GPU's answers become a record as a disk's do") {
  vmctl::PlacedDevice gpu;
  gpu.vendor = vmctl::nvidia;
  gpu.grant.address = "0000:19:00.0";
  gpu.name = "a GPU";
  const auto filled =
      read_answer<canary::FillRequest>(R"({"record":"filled","bytes":900,"total":1000,"read_back":true})");
  const auto nothing = read_answer<canary::SearchRequest>(
      R"({"record":"searched","scanned_bytes":950,"total_bytes":1000,"found":[]})");
  const auto clean = device_evidence(gpu, filled, nothing, filled.read_back);
  CHECK(judge(clean) == LeakResult::not_found);
  CHECK(clean.scanned / clean.total == 0.9);
  const auto search = read_answer<canary::SearchRequest>(
      R"({"record":"searched","scanned_bytes":950,"total_bytes":1000,"found":[)"
      R"({"canary":"tenant-a's canary","path":"cuda:0000:00:05.0/shared_memory","count":3,"first":16,"last":96}]})");
  const auto leak = to_record(device_evidence(gpu, filled, search, true), device_memory_search, "b after a");
  CHECK(leak.result == "leak");
  CHECK(leak.found ==
        "tenant-a's canary on 0000:19:00.0 (a GPU) in cuda:0000:00:05.0/shared_memory, "
        "3 times in bytes 16 to 96");
  CHECK_THAT(leak.reason, Contains("between_tenants: reset"));
}

TEST_CASE("guests of a plan that lends a device of NVIDIA's need its driver") {
  vmctl::PlacedDevice disk, gpu;
  gpu.vendor = vmctl::nvidia;
  Plan plan;
  plan.placements.resize(2);
  plan.placements[1].tenants.resize(1);
  plan.placements[1].tenants[0].nodes.resize(1);
  plan.placements[1].tenants[0].nodes[0].devices = {disk};
  CHECK_FALSE(lends_nvidia_devices(plan));
  plan.placements[1].tenants[0].nodes[0].devices.push_back(gpu);
  CHECK(lends_nvidia_devices(plan));
}
