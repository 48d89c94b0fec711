#include "results/tables/security_table.h"

#include <algorithm>
#include <sstream>

#include "common/contains.h"
#include "common/text/text.h"
#include "results/exchange/exchange.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

SecurityProbe leak() {
  SecurityProbe probe;
  probe.arm = "bare_metal";
  probe.name = "host_files";
  probe.tenants = "tenant-b at the host";
  probe.result = "leak";
  probe.control = true;
  probe.scanned = 3 << 20;
  probe.total = 12 << 20;
  probe.unit = "B";
  probe.found = "a file of the host in /root/x, byte 0";
  return probe;
}

SecurityProbe impossible() {
  SecurityProbe probe;
  probe.arm = "vm";
  probe.name = "vsock";
  probe.result = "not_possible";
  probe.reason = "no such kernel";
  return probe;
}

}  // namespace

TEST_CASE("a table of security probes names leak, share and control, and programs get numbers") {
  const auto table = security_table({leak(), impossible()});
  const auto text = render(table, Format::table);
  CHECK_THAT(text, Contains("not possible") && Contains("25 % of 12MiB") && Contains("/root/x"));
  const auto narrow = narrow_security_table({leak(), impossible()});
  const auto lines = split(render(narrow, Format::table), '\n');
  const auto of_table = [](const std::string& line) {
    return line.starts_with("arm ") || line.starts_with("vm ");
  };
  CHECK(std::count_if(lines.begin(), lines.end(), of_table) == 3);  // the head, a probe and its reason
  for (const auto& line : lines) { CHECK((line.starts_with("control:") || line.size() <= 80)); }
  CHECK(contains(lines, std::string("bare_metal host_files: a file of the host in /root/x, byte 0")));
  CHECK(contains(lines, std::string("vm vsock: no such kernel")));
  CHECK(render(narrow, Format::json) == render(table, Format::json));
  const auto rows = nlohmann::json::parse(render(table, Format::json));
  CHECK(rows[0].at("scanned_share") == 0.25);
  CHECK(rows[0].at("control") == true);
  CHECK(rows[1].at("result") == "not_possible");
  CHECK(rows[1].at("scanned").is_null());
  CHECK(security_summary({leak(), impossible()}) == "1 leak (bare_metal: host_files), 1 not possible");
}

TEST_CASE("security probes are exported and imported byte by byte, and not_found needs a control") {
  const TemporaryFolder folder;
  Store store(folder.path / "a.db");
  Experiment experiment;
  experiment.id = "e";
  experiment.scenario = "s";
  store.add_experiment(experiment);
  store.add_security_probes("e", std::vector{leak(), impossible()});
  CHECK(store.security_probes("e").size() == 2);
  auto careless = leak();
  careless.result = "not_found";
  careless.control = false;
  CHECK_THROWS(store.add_security_probes("e", std::vector{careless}));

  std::ostringstream first, second;
  export_jsonl(store, {.experiments = {"e"}}, first);
  Store copy(folder.path / "b.db");
  std::istringstream in(first.str());
  CHECK(import_jsonl(copy, in, "first.jsonl").security == 2);
  export_jsonl(copy, {.experiments = {"e"}}, second);
  CHECK(first.str() == second.str());
}
