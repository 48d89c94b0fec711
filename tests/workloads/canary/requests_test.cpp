#include "workloads/canary/requests.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "common/error.h"
#include "tests/support/canary_lines.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/canary/memory.h"

using namespace virtrain;
using namespace virtrain::canary;
using nlohmann::json;
using virtrain::test::Contains;

namespace {

int fsync_error = 0;

template <typename Request>
std::string refusal_of(const json& request) {
  try {
    read_request<Request>(request.dump());
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.what();
  }
}

/// As write_record() has it.
template <typename Answer>
std::string line_of(const Answer& answer) {
  auto fields = answer_json(answer);
  fields.update({{"record", Answer::record}, {"rank", 0}});
  return fields.dump();
}

}  // namespace

/// In place of the C library's: no file system fails on demand.
extern "C" int fsync(int /*fd*/) {
  errno = fsync_error;
  return fsync_error == 0 ? 0 : -1;
}

TEST_CASE("requests without what they need, or with what is no canary, are refused") {
  const auto text = make_canary("a").text;
  CHECK(refusal_of<SearchRequest>({{"canaries", {{"a", text}}}, {"roots", {"/tmp"}}}).empty());
  CHECK_THAT(refusal_of<SearchRequest>({{"canaries", {{"a", "short"}}}, {"roots", {"/tmp"}}}),
             Contains("'a' is not a canary"));
  CHECK_THAT(refusal_of<SearchRequest>({{"canaries", {{"a", text}}}}), Contains("'roots'"));
  CHECK_THAT(refusal_of<FillRequest>(json::object()), Contains("read the request to fill: 'paths'"));
  CHECK_THAT(refusal_of<ListenRequest>({{"address", 7}}), Contains("'address' must be text"));
  json target{{"kind", "arp"}, {"name", "x"}};
  json reach{{"address", "10.0.0.1"}, {"source", "10.0.0.1"}, {"canaries", json::object()}};
  reach["targets"] = {target};
  CHECK(refusal_of<ReachRequest>(reach).empty());
  target["kind"] = "smoke";
  reach["targets"] = {target};
  CHECK_THAT(refusal_of<ReachRequest>(reach), Contains("'targets' must be a list"));
}

TEST_CASE("requests and answers have the bytes that they always had, and numbers keep every digit") {
  const auto search = read_request<SearchRequest>(test::search_line);
  CHECK(search.bytes == UINT64_MAX);
  CHECK(search.canaries.at("tenant-b's own") == "vt-canary-aaaaaaaaaaaaaaaaaaaaaa");
  CHECK(read_request<PeerRequest>(test::peer_line).ranges.at(0).address == 0xfffffffffffff000);
  CHECK(read_request<ReachRequest>(test::reach_line).targets.at(2).kind == TargetKind::vsock);
  CHECK(read_request<ListenRequest>(test::listen_line).ports == std::vector<std::uint16_t>{1024, 40'000});
  CHECK(read_request<FunctionsRequest>(test::functions_line).known.size() == 2);
  CHECK(read_request<MemoryRequest>(test::memory_line).functions.size() == 1);
  CHECK(read_request<FillRequest>(test::fill_line).seconds == 240);

  SearchReport report{50, UINT64_MAX, 3, 1, {}};
  report.found = {{"own", "/tmp/x", 1, 3, 3}, {"theirs", "/dev/vda", 9, 4096, (std::uint64_t{1} << 53) + 1}};
  CHECK(line_of(message_of(report)) == test::searched_line);
  CHECK(line_of(FoundMemory{{"/dev/nvme0n1"}, true, ""}) == test::found_memory_line);
  PeerReads peer;
  peer.memory = {{.scanned = 4096, .total = 4096, .found = {"own"}, .name = "memory"}};
  peer.foreign = {{.total = 4'194'304,
                   .refused = "map /dev/mem at 0x8000000000: Operation not permitted",
                   .name = "0000:03:00.0 region 2"}};
  CHECK(line_of(peer) == test::peer_reads_line);
  const Functions functions{
      9,
      2,
      1,
      true,
      {{"0000:41:00.0", "0x10de:0x20f1", {"resource1"}}, {"0000:42:00.0", "0x10de:0x20f1", {}}}};
  CHECK(line_of(functions) == test::functions_seen_line);
  CHECK(line_of(Filled{5, 7, true}) == test::filled_line);
  CHECK(line_of(Listening{"52:54:00:00:00:0a", "fe80::a", false}) == test::listening_line);
  Reached reached;
  reached.answers = {{"tcp/10.77.200.2 port 1024", "connected", "", "peer"},
                     {"arp/10.77.200.2", "replied", "52:54:00:00:00:0b", ""}};
  reached.heard = {"peer"};
  reached.failed = {"vsock/CID 3 port 47101: Address family not supported by protocol"};
  reached.scans = {{"tcp-scan", 65'535, 65'535, 5, {1, 2, 3, 4, 5}, {}},
                   {"tcp-scan-control", 2, 2, 2, {1024}, {40'000}}};
  CHECK(line_of(reached) == test::reached_line);
}

TEST_CASE("filled memory has the canary on every page, with the page's number behind it") {
  const auto path = std::filesystem::temp_directory_path() / ("canary-memory-" + std::to_string(::getpid()));
  constexpr std::size_t size = 300 * 4096 + 100;  // more than a piece, and the last page is not whole
  std::ofstream(path) << std::string(size, 'x');
  const auto canary = make_canary("a");
  const auto filled = fill_memory(path, canary.text, std::chrono::seconds{60});
  CHECK(filled.bytes == size);
  CHECK(filled.total == size);
  std::ifstream in(path);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  for (const std::size_t page : {0, 1, 5, 255, 256, 299, 300}) {
    CHECK(bytes.substr(page * 4096, canary_size) == canary.text);
    CHECK(bytes.substr(page * 4096 + canary_size, 16) == fmt::format("{:016x}", page));
  }
  const auto report = search_files({canary}, {path});
  REQUIRE(report.found.size() == 1);
  CHECK(report.found[0].first == 0);
  CHECK(report.found[0].last >= 300ULL * 4096);
  const auto late = fill_memory(path, canary.text, std::chrono::seconds{0});
  CHECK(late.bytes == 0);
  CHECK(late.total == size);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(fill_memory(path, canary.text, std::chrono::seconds{60}), Error);
}

TEST_CASE("what did not reach the device is not filled") {
  const TemporaryFolder folder;
  const auto path = folder.path / "memory";
  std::ofstream(path) << std::string(4096, 'x');
  const auto fill_with = [&](int error) {
    fsync_error = error;
    const auto filled = fill_memory(path, make_canary("a").text, std::chrono::seconds{60});
    fsync_error = 0;
    return filled.bytes;
  };
  CHECK_THROWS_WITH(fill_with(EIO), virtrain::test::Contains("fill " + path.string()));
  CHECK(fill_with(EINVAL) == 4096);  // of a special file
}

TEST_CASE("a disk holds data where its first or last MiB is neither empty nor canaries") {
  const TemporaryFolder folder;
  const auto path = folder.path / "disk";
  constexpr std::size_t size = (std::size_t{3} << 20) + 512;
  const auto with = [&](std::size_t offset, const std::string& text) {
    std::string bytes(size, '\0');
    bytes.replace(offset, text.size(), text);
    std::ofstream(path) << bytes;
    return holds_data(path);
  };
  CHECK_FALSE(with(0, ""));
  CHECK(with(0, "lab-disk-0"));
  CHECK(with(0x438, "\x53\xef"));  // a superblock of ext4
  CHECK(with(size - 512, "EFI PART"));
  fill_memory(path, make_canary("a").text, std::chrono::seconds{60});
  CHECK_FALSE(holds_data(path));
  CHECK_THROWS_AS(holds_data(folder.path / "absent"), Error);
}

TEST_CASE("a function's memory is its disks, else its prefetchable regions that sysfs lets be mapped") {
  const TemporaryFolder folder;
  const auto functions = folder.path / "sys/bus/pci/devices";
  std::filesystem::create_directories(functions / "disk/nvme/nvme3/nvme3n1");
  std::filesystem::create_directories(functions / "disk/nvme/nvme3/power");
  // As an ivshmem device has them: registers, MSI-X, memory of 64 bits (the upper half has no region).
  std::filesystem::create_directories(functions / "card");
  std::ofstream(functions / "card/resource") << "0x00000000fea00000 0x00000000fea000ff 0x0000000000040200\n"
                                                "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                                                "0x0000008000000000 0x00000080000fffff 0x000000000014220c\n"
                                                "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  for (const char* file : {"resource0", "resource2"}) { std::ofstream(functions / "card" / file) << ""; }
  using Paths = std::vector<std::filesystem::path>;
  CHECK(device_memory(folder.path, "disk") == Paths{"/dev/nvme3n1"});
  CHECK(device_memory(folder.path, "card") == Paths{functions / "card/resource2"});
  CHECK(device_memory(folder.path, "absent").empty());
  CHECK_FALSE(refusal_of<MemoryRequest>({{"functions", {"../../etc"}}}).empty());
}

TEST_CASE(
    "functions of other models than the known ones are told, those whose memory can be written to first") {
  const TemporaryFolder folder;
  const auto plant = [&](const std::string& address, const std::string& vendor, const std::string& device) {
    auto function = folder.path / "sys/bus/pci/devices" / address;
    std::filesystem::create_directories(function);
    std::ofstream(function / "vendor") << vendor << "\n";
    std::ofstream(function / "device") << device << "\n";
    return function;
  };
  CHECK(see_functions(folder.path, {}).total == 0);
  CHECK(see_functions(folder.path, {}).control);
  plant("0000:00:00.0", "0x8086", "0x29c0");
  plant("0000:00:01.0", "0x1af4", "0x1041");
  plant("0000:00:02.0", "0x1af4", "0x1110");
  const auto gpu = plant("0000:41:00.0", "0x10de", "0x20f1");
  std::ofstream(gpu / "resource1") << "";
  std::filesystem::create_directory(gpu / "resource3");  // cannot be opened for writing, by root neither
  const auto seen = see_functions(folder.path, {"0x8086:0x29c0", "0x1af4:0x10"});
  CHECK(seen.total == 4);
  CHECK((seen.others == 2 && seen.opened == 1));
  REQUIRE(seen.functions.size() == 2);
  CHECK(seen.functions[0].address == "0000:41:00.0");
  CHECK(seen.functions[0].model == "0x10de:0x20f1");
  CHECK(seen.functions[0].opened == std::vector<std::string>{"resource1"});
  CHECK(seen.functions[1].address == "0000:00:02.0");
  CHECK(seen.functions[1].opened.empty());
  CHECK(see_functions(folder.path, {}).others == 4);
  CHECK_FALSE(refusal_of<FunctionsRequest>({{"known", 7}}).empty());
}

TEST_CASE("a report fits into a record however much was found") {
  SearchReport report;
  for (int i = 0; i < 1000; ++i) { report.found.push_back({"a", std::string(4000, 'p'), 1, 2, 3}); }
  CHECK(line_of(message_of(report)).size() < 4096);
  CHECK(answer_json(message_of(report)).at("findings") == 1000);
  Reached reach;
  for (int i = 0; i < 1000; ++i) {
    reach.answers.push_back({"ipv6/fe80::1234:5678:9abc:def0 port 60999", "connected", "", "owner"});
  }
  reach.failed.assign(1000, "host/fe80::1234:5678:9abc:def0 port 60999: Too many open files");
  const std::vector<std::uint16_t> ports(1000, 60'999);
  reach.scans.assign(4, {"ipv6-scan-control", 65'535, 65'535, 2000, ports, ports});
  CHECK(line_of(reach).size() < 4096);
  CHECK(answer_json(reach).at("scans")[0].at("open").size() == 4);
  Functions functions;
  const std::vector<std::string> regions{"resource0", "resource1", "resource2",
                                         "resource3", "resource4", "resource5"};
  for (int i = 0; i < 1000; ++i) {
    functions.functions.push_back({"0000:41:00.0", "0x10de:0x20f1", regions});
  }
  CHECK(line_of(functions).size() < 4096);
}
