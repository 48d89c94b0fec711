#include "common/text/text.h"
#include "common/text/wrap.h"
#include "results/tables/tables.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

CaseComparison a_gap(const std::string& name, double ratio, const Evidence& ours, const Evidence& theirs) {
  CaseComparison one;
  one.case_name = name;
  one.baseline = "bare_metal";
  one.candidate = "vm";
  one.test = RatioTest{};
  one.test->ratio = ratio;
  one.test->ci_tost = Interval{ratio - 0.005, ratio + 0.005};
  one.explanation = explain(ratio, ours, theirs);
  return one;
}

/// A side whose nodes had this share of their CPU time stolen.
Evidence stolen(double share) {
  return {{{"rate.cpu_user_seconds", 1 - share}, {"rate.cpu_steal_seconds", share}}};
}

std::string shown(const Table& table) {
  return render(table, Format::table, Screen{false, 80});
}

}  // namespace

TEST_CASE("a gap has a table of causes with both values and what they may cost") {
  auto ours = stolen(0);
  auto theirs = stolen(0.035);
  ours.numbers["probe.triad"] = 12e9;
  theirs.numbers["probe.triad"] = 11.88e9;
  const auto found = explanations_of({a_gap("a", 0.952, ours, theirs)});
  REQUIRE(found.tables.size() == 1);
  CHECK(found.rest.empty());
  CHECK(shown(found.tables[0]) ==
        "a: vm is 4.8 % slower than bare_metal (90 % interval 4.3 to 5.3 %)\n\n"
        "cause              bare_metal          vm  effect\n"
        "steal                  0.00 %      3.50 %  costs about 3.5 %\n"
        "memory                12 GB/s  11.88 GB/s  costs up to 1.0 %\n"
        "not accounted for                          0.4 to 1.3 %\n\n"
        "Try next: leave a core free for the host, or pin the VMs (guest.pinning: numa),\n"
        "as a variant of the arm.\n");
  CHECK_THAT(render(found.tables[0], Format::table), Contains("other work took the node's cores"));
}

TEST_CASE("causes never cost more than the gap") {
  const auto overlapping = shown(explanations_of({a_gap("a", 0.9, {}, stolen(0.5))}).tables.at(0));
  CHECK_THAT(overlapping, Contains("costs up to 10.0 %") && Contains("nothing: they overlap"));
  Evidence fast, slow;
  fast.numbers["probe.triad"] = 12e9;
  slow.numbers["probe.triad"] = 6e9;
  CHECK_THAT(
      shown(explanations_of({a_gap("a", 0.9, fast, slow)}).tables.at(0)),
      Contains("costs up to 10.0 %") && Contains("not accounted for                      up to 10.0 %"));
  const auto unknown = explanations_of({a_gap("a", 0.9, {}, {}), a_gap("b", 0.8, {}, {})});
  CHECK(unknown.tables.empty());
  CHECK_THAT(unknown.rest.at(0),
             StartsWith("Gaps without a cause that was measured: b (20.0 %), a (10.0 %).") &&
                 Contains("probes: [triad, gemm]"));
}

TEST_CASE("the largest gap comes first, and noise, emulation and facts that differ are a line each") {
  auto emulated = a_gap("slow", 0.01, {}, stolen(0.5));
  emulated.reason = "emulated";
  auto level = a_gap("level", 0.997, {}, {});
  auto differing = a_gap("largest", 0.8, {}, stolen(0.1));
  differing.differences = {{"driver", FactRule::must_be_equal, {"470"}, {"580"}}};
  const auto found = explanations_of({a_gap("small", 0.95, {}, stolen(0.05)), emulated, level, differing});
  REQUIRE(found.tables.size() == 2);
  CHECK_THAT(shown(found.tables[0]), StartsWith("largest: vm is 20.0 % slower") &&
                                         Contains("Differs and must be equal: driver (470 → 580)."));
  CHECK_THAT(shown(found.tables[1]), StartsWith("small: "));
  REQUIRE(found.rest.size() == 2);
  CHECK_THAT(found.rest[0], StartsWith("slow: QEMU emulated the processor"));
  CHECK(found.rest[1] == "level: no gap beyond noise (at most 0.3 %), nothing to explain.");
  CHECK_THAT(render({emulated}, Format::markdown), !Contains("steal") && Contains("QEMU emulated"));
}
