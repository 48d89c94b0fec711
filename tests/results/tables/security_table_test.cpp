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

LeakSearch leak() {
  LeakSearch search;
  search.arm = "bare_metal";
  search.name = "host_files";
  search.tenants = "tenant-b at the host";
  search.result = "leak";
  search.control = true;
  search.scanned = 3 << 20;
  search.total = 12 << 20;
  search.unit = "B";
  search.found = "a file of the host in /root/x, byte 0";
  return search;
}

LeakSearch impossible() {
  LeakSearch search;
  search.arm = "vm";
  search.name = "vsock";
  search.result = "not_possible";
  search.reason = "no such kernel";
  return search;
}

}  // namespace

TEST_CASE("a table of leak searches names leak, share and control, and programs get numbers") {
  const auto table = security_table({leak(), impossible()});
  const auto text = render(table, Format::table);
  CHECK_THAT(text, Contains("not possible") && Contains("25 % of 12MiB") && Contains("/root/x"));
  const auto narrow = narrow_security_table({leak(), impossible()});
  const auto lines = split(render(narrow, Format::table), '\n');
  const auto of_table = [](const std::string& line) {
    return line.starts_with("arm ") || line.starts_with("vm ");
  };
  CHECK(std::count_if(lines.begin(), lines.end(), of_table) == 3);  // the head, a search and its reason
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

TEST_CASE("leak searches are exported and imported byte by byte, and not_found needs a control") {
  const TemporaryFolder folder;
  Store store(folder.path / "a.db");
  Experiment experiment;
  experiment.id = "e";
  experiment.scenario = "s";
  store.add_experiment(experiment);
  store.add_leak_searches("e", std::vector{leak(), impossible()});
  CHECK(store.leak_searches("e").size() == 2);
  auto careless = leak();
  careless.result = "not_found";
  careless.control = false;
  CHECK_THROWS(store.add_leak_searches("e", std::vector{careless}));

  std::ostringstream first, second;
  export_jsonl(store, {.experiments = {"e"}}, first);
  Store copy(folder.path / "b.db");
  std::istringstream in(first.str());
  CHECK(import_jsonl(copy, in, "first.jsonl").security == 2);
  export_jsonl(copy, {.experiments = {"e"}}, second);
  CHECK(first.str() == second.str());
}
