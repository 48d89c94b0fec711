#include "results/tables/hosts_table.h"

#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

/// Trials of one arm, in which host b computes at 80 % of host a.
std::vector<HostReading> two_hosts() {
  std::vector<HostReading> readings;
  for (std::int64_t trial = 1; trial <= 3; ++trial) {
    const auto of_a = 9.0 + static_cast<double>(trial);  // 10, 11, 12
    readings.push_back({"weak/2", "vm", "a", trial, of_a, 0.25});
    readings.push_back({"weak/2", "vm", "b", trial, of_a * 0.8, 0.05});
  }
  return readings;
}

TEST_CASE("hosts are rows, and the slowest is named with range and interval over hosts") {
  const auto table = hosts_table(two_hosts());
  REQUIRE(table.rows.size() == 2);
  const auto rows = nlohmann::json::parse(render(table, Format::json));
  CHECK(rows[0]["host"] == "a");
  CHECK(rows[0]["images_per_second"] == 11.0);
  CHECK(rows[0]["trials"] == 3);
  // 11 and 4.303 standard errors of 1/sqrt(3): Student's t of two degrees of freedom.
  CHECK(rows[0]["ci_low"].get<double>() == Approx(11 - 4.30265 / std::sqrt(3)).epsilon(1e-4));
  CHECK(rows[1]["of_fastest"].get<double>() == Approx(0.8));
  CHECK(rows[1]["waiting"].get<double>() == Approx(0.05));
  CHECK_THAT(table.notes.at(0), Contains("case weak/2, vm: b computes slowest, at 80 % of a") &&
                                    Contains("over 2 hosts 8.8 to 11 images/s a rank, mean 9.9"));
}

TEST_CASE("a host alone is compared with nobody, and several ranks of a host are one reading of a trial") {
  std::vector<HostReading> readings;
  for (const double rate : {8.0, 12.0}) { readings.push_back({"one", "vm", "a", 1, rate, 0}); }
  const auto table = hosts_table(readings);
  CHECK(table.notes.empty());
  const auto rows = nlohmann::json::parse(render(table, Format::json));
  CHECK(rows[0]["trials"] == 1);
  CHECK(rows[0]["images_per_second"] == 10.0);
  CHECK(rows[0]["ci_low"].is_null());
  CHECK(hosts_table(std::vector<HostReading>()).rows.empty());
}

}  // namespace
