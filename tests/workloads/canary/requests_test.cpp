#include "workloads/canary/requests.h"

#include <unistd.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "workloads/canary/memory.h"

using namespace virtrain;
using namespace virtrain::canary;
using nlohmann::json;

TEST_CASE("requests without what they need, or with what is no canary, are refused") {
  const auto text = make_canary("a").text;
  CHECK(search_request({{"canaries", {{"a", text}}}, {"roots", {"/tmp"}}}).canaries.size() == 1);
  CHECK_THROWS_AS(search_request({{"canaries", {{"a", "short"}}}, {"roots", {"/tmp"}}}), Error);
  CHECK_THROWS_AS(search_request({{"canaries", {{"a", text}}}}), Error);
  CHECK_THROWS_AS(fill_request(json::object()), Error);
  CHECK_THROWS_AS(listen_request({{"address", 7}}), Error);
  const json target{{"kind", "smoke"}, {"name", "x"}};
  CHECK_THROWS_AS(
      reach_request({{"address", "10.0.0.1"}, {"targets", {target}}, {"canaries", json::object()}}), Error);
}

TEST_CASE("filled memory has the canary on every page, with the page's number behind it") {
  const auto path = std::filesystem::temp_directory_path() / ("canary-memory-" + std::to_string(::getpid()));
  constexpr std::size_t size = 5 * 4096 + 100;  // the last page is not whole
  std::ofstream(path) << std::string(size, 'x');
  const auto canary = make_canary("a");
  CHECK(fill_memory(path, canary.text) == size);
  std::ifstream in(path);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  for (std::size_t page = 0; page < 6; ++page) {
    CHECK(bytes.substr(page * 4096, canary_size) == canary.text);
    CHECK(bytes.substr(page * 4096 + canary_size, 16) == "000000000000000" + std::to_string(page));
  }
  const auto report = search_files({canary}, {path});
  REQUIRE(report.found.size() == 1);
  CHECK(report.found[0].first == 0);
  CHECK(report.found[0].last > 5 * 4096 - 1);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(fill_memory(path, canary.text), Error);
}

TEST_CASE("a report fits into a record however much was found") {
  SearchReport report;
  for (int i = 0; i < 1000; ++i) { report.found.push_back({"a", std::string(4000, 'p'), 1, 2, 3}); }
  CHECK(to_json(report).dump().size() < 4096);
  CHECK(to_json(report).at("findings") == 1000);
  ReachReport reach;
  for (int i = 0; i < 1000; ++i) {
    reach.answers.push_back({"ipv6/fe80::1234:5678:9abc:def0 port 60999", "connected", "", "owner"});
  }
  CHECK(to_json(reach).dump().size() < 4096);
}
