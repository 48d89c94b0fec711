#include "results/tables/render.h"

#include "common/text/text.h"
#include "common/text/wrap.h"
#include "results/reading/reading.h"
#include "results/store/canonical_json.h"
#include "results/tables/tables.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::EndsWith;
using virtrain::test::StartsWith;

namespace {

Table sample_table() {
  Table table;
  table.title = "A title";
  table.columns = {{"case", "case"}, {"images_per_second", "images/s", true}, {"share", "share", true}};
  table.rows = {{cell("weak/2"), cell(std::optional(5391.751667), 1), share_cell(0.9778)},
                {cell("=cmd|' /C calc'"), Cell{}, share_cell(std::nullopt)},
                {cell("a \"b\", c"), cell(std::optional(-1.5), 2), Cell{}}};
  table.notes = {"a note"};
  return table;
}

}  // namespace

TEST_CASE("a throughput in bytes a second has a prefix for people, and its whole value for programs") {
  const auto text = [](double value, const char* unit) { return other_unit_cell(value, unit).text; };
  CHECK(text(48.1e9, "B/s") == "48.1 GB/s");
  CHECK(text(1536, "B/s") == "1.536 kB/s");
  CHECK(text(0, "B/s") == "0 B/s");
  CHECK(text(123456.7, "tokens/s") == "123456.7 tokens/s");
  CHECK(other_unit_cell(48.1e9, "B/s").value == 48.1e9);
  CHECK(other_unit_cell(48.1e9, "images/s").text.empty());  // has a column of its own
  CHECK(other_unit_cell(std::nullopt, "B/s").text.empty());
}

TEST_CASE("a table aligns by what is seen") {
  CHECK(render(sample_table(), Format::table) ==
        "A title\n\n"
        "case             images/s   share\n"
        "weak/2             5391.8  97.8 %\n"
        "=cmd|' /C calc'\n"
        "a \"b\", c            -1.50\n"
        "\na note\n");
  Table umlauts{.columns = {{"a", "a"}, {"b", "b"}},
                .rows = {{cell("äöü…"), cell("x")}, {cell("abcd"), cell("x")}}};
  Table raw{.columns = {{"a", "\x1b[2J"}}, .rows = {{cell("x")}}};
  CHECK_THAT(render(raw, Format::table), !Contains("\x1b"));
  CHECK(render(umlauts, Format::table) == "a     b\näöü…  x\nabcd  x\n");
  CHECK_THAT(render(sample_table(), Format::table, Screen{true, 0}), Contains("\x1b[1m"));
}

TEST_CASE("what is wider than the screen goes on below its row, with its head") {
  Table table{.columns = {{"case", "case"}, {"rate", "images/s", true}, {"why", "why"}},
              .rows = {{cell("weak/2"), cell("5391"), cell("one rank ran on another core than planned")},
                       {cell("weak/4"), cell("9000"), cell("")}},
              .notes = {"a note that is a little longer than the screen"}};
  CHECK(render(table, Format::table, Screen{false, 30}) ==
        "case    images/s\n"
        "weak/2      5391\n"
        "weak/4      9000\n"
        "\n"
        "case    why\n"
        "weak/2  one rank ran on\n"
        "        another core than\n"
        "        planned\n"
        "\n"
        "a note that is a little longer\n"
        "than the screen\n");
  CHECK(render(table, Format::csv, Screen{false, 30}) == render(table, Format::csv));
}

TEST_CASE("a table obeys nothing that a guest printed") {
  Table table{.columns = {{"a", "a"}}, .rows = {{cell("x\x1b[2Jy\nz")}}};
  const auto text = render(table, Format::table);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK_THAT(text, Contains("y z"));
}

TEST_CASE("JSON has full precision and null") {
  const auto json = nlohmann::json::parse(render(sample_table(), Format::json));
  CHECK(json.at(0).at("images_per_second") == 5391.751667);
  CHECK(json.at(1).at("images_per_second").is_null());
  CHECK(json.at(1).at("case") == "=cmd|' /C calc'");
}

TEST_CASE("CSV is RFC 4180 and defuses formulas") {
  CHECK(render(sample_table(), Format::csv) ==
        "case,images_per_second,share\r\n"
        "weak/2,5391.751667,0.9778\r\n"
        "'=cmd|' /C calc',,\r\n"
        "\"a \"\"b\"\", c\",-1.5,\r\n");
}

TEST_CASE("Markdown escapes what would be markup") {
  CHECK(render(sample_table(), Format::markdown) ==
        "**A title**\n\n"
        "| case | images/s | share |\n"
        "|---|---:|---:|\n"
        "| weak/2 | 5391.8 | 97.8 % |\n"
        "| =cmd\\|' /C calc' |  |  |\n"
        "| a \"b\", c | -1.50 |  |\n"
        "\n- a note\n");
}

TEST_CASE("the comparison reads like the study's table") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  for (int pair = 1; pair <= 3; ++pair) {
    add_finished(store, "e1", "weak-scaling/1", "vm", pair, 100 + 0.1 * pair);
    const auto trial = add_finished(store, "e1", "weak-scaling/2", "vm", pair, 198, 2);
    store.save_tenant(trial, {.tenant_index = 0, .nodes = 1, .throughput = of_images(99)});
    store.save_tenant(trial, {.tenant_index = 1, .nodes = 1, .throughput = of_images(99)});
    add_finished(store, "e1", "weak-scaling/2", "bare_metal", pair, 200 + 0.1 * pair, 2);
  }
  const auto comparisons = compare(store, {});
  const auto text = render(comparisons, Format::table);
  CHECK_THAT(text, StartsWith("vm against bare_metal: images/s, 3 pairs, margin 2 %\n\n"
                              "case            bare_metal     vm   ratio  90 % interval    verdict\n"
                              "weak-scaling/2       200.2  198.0  0.9890  0.9882 … 0.9898  equivalent\n") &&
                       Contains("\nNot compared\n\ncase            arm  nodes  runs  images/s\n"
                                "weak-scaling/1  vm       1     3     100.2\n") &&
                       Contains("\nScaling\n\ncase            arm  images/s  speedup  ideal  efficiency\n"
                                "weak-scaling/2  vm      198.0    1.976      2      98.8 %\n") &&
                       Contains("Virtualization: vm on KVM; bare_metal none.") &&
                       Contains("--tenants lists the tenants") && !Contains("99.0"));
  CHECK_THAT(render(comparisons, Format::table, {}, {.tenants = true}),
             Contains("case            arm  tenant  together\nweak-scaling/2  vm   1           99.0\n") &&
                 !Contains("--tenants"));
  CHECK_THAT(render(comparisons, Format::markdown),
             Contains("of each tenant") && Contains("vm/bare\\_metal"));
  CHECK(nlohmann::json::parse(render(comparisons, Format::json)).at(1).at("verdict") == "equivalent");
  CHECK_THAT(render(comparisons, Format::markdown),
             StartsWith("### vm against bare\\_metal\n\n| case | arm |") &&
                 Contains("\n\n- Virtualization: ") && Contains("equivalent"));
  const auto csv = render(comparisons, Format::csv);
  CHECK_THAT(csv, Contains("weak-scaling/2,vm,2,3,198,\"[99,99]\","));
  CHECK_THAT(csv,
             Contains(",images_per_currency_unit,ratio_ci_low,ratio_ci_high,speedup_ci_low,speedup_ci_high,"
                      "efficiency_ci_low,efficiency_ci_high,currency\r\n"));
  const auto json = nlohmann::json::parse(render(comparisons, Format::json)).at(1);
  std::string limits = ",";
  for (const auto& [key, object] : {std::pair("ci", json), std::pair("speedup_ci", json.at("arms").at("vm")),
                                    std::pair("efficiency_ci", json.at("arms").at("vm"))}) {
    for (const char* end : {"_low", "_high"}) {
      limits += canonical_json(object.at(key + std::string(end))) + ",";
    }
  }
  CHECK_THAT(limits, !Contains("null"));
  CHECK_THAT(csv, Contains(limits + "\r\n"));
  CHECK_THAT(text, !Contains("ci_low"));
}

TEST_CASE("a comparison fits 80 columns, a line a case") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  const std::string long_name = "two-vms-with-a-name-of-many-words-and-two-tenants";
  for (int pair = 1; pair <= 3; ++pair) {
    for (const auto& name : {long_name + "-a", long_name + "-b"}) {
      add_finished(store, "e1", name, "vm", pair, 10198 + 10 * pair, 2);
      add_finished(store, "e1", name, "bare_metal_shared", pair, 10708 - 10 * pair, 2);
    }
  }
  add_finished(store, "e1", long_name + "-b", "vm", 4, 10200, 2);
  add_finished(store, "e1", long_name + "-b", "bare_metal_shared", 4, 10700, 2);
  CompareRequest request;
  request.baseline = "bare_metal_shared";
  const auto comparisons = compare(store, request);
  for (const bool brief : {true, false}) {
    const auto text = render(comparisons, Format::table, {false, 80}, {.brief = brief});
    for (const auto& line : split(text, '\n')) { CHECK(text_width(line) <= 80); }
    CHECK((text.find("More: --explain ranks") != std::string::npos) == !brief);
    CHECK_THAT(text, Contains("bare_…") && Contains("…-a ") && Contains("…-b ") && Contains("0.95") &&
                         Contains("worse") && !Contains("3 pairs\n") && !Contains("compared"));
  }
  CHECK_THAT(render(comparisons, Format::table, {false, 160}),
             Contains(long_name + "-a") && Contains("compared"));
}

TEST_CASE("a run of one arm ends with its throughput, without reasons for a comparison that nobody wanted") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  add_finished(store, "e1", "one", "bare_metal_shared", 1, 17.5);
  const auto comparisons = compare(store, {});
  CHECK(render(comparisons, Format::table, {}, {.brief = true}) ==
        "Throughput\n\n"
        "case  arm                nodes  runs  images/s\n"
        "one   bare_metal_shared      1     1      17.5\n\n"
        "Virtualization: bare_metal_shared none.\n");
  CHECK_THAT(render(comparisons, Format::table), Contains("nothing to compare"));
}

TEST_CASE("a narrow screen has shorter names, not other names or numbers") {
  Table table{.columns = {{"case", "case", false, false, true},
                          {"rate", "label:mpi-4.1.7", true, false, true},
                          {"more", "more", false, false, false, true}},
              .rows = {{cell("weak-scaling/2"), cell("12345.6"), cell("spare")},
                       {cell("weak-scaling/16"), cell("123456.7"), cell("spare")}}};
  CHECK(render(table, Format::table, Screen{false, 30}) ==
        "case             label:mpi-….7\n"
        "weak-scaling/2         12345.6\n"
        "weak-scaling/16       123456.7\n");
  CHECK(render(table, Format::table, Screen{false, 22}) ==
        "case        label:…\n"
        "weak-…/2    12345.6\n"
        "weak-…/16  123456.7\n");
  // Two names that would read the same stay as they are.
  table.rows[1][0] = cell("weak-others/2");
  CHECK_THAT(render(table, Format::table, Screen{false, 22}),
             Contains("weak-scaling/2") && Contains("weak-others/2"));
  CHECK_THAT(render(table, Format::markdown), Contains("more"));
}

TEST_CASE("a narrow screen has texts in several lines, then tables below each other") {
  const Table table{.title = "T",
                    .columns = {{.key = "topic", .head = "topic"},
                                {.key = "own", .head = "its own value", .wraps = true},
                                {.key = "n", .head = "n", .right = true}},
                    .rows = {{cell("GPU driver"), cell("one of several words"), cell(12)}}};
  CHECK(render(table, Format::table, Screen{false, 26}) ==
        "T\n\n"
        "            its own\n"
        "topic       value        n\n"
        "GPU driver  one of      12\n"
        "            several\n"
        "            words\n");
  CHECK(render(table, Format::table, Screen{false, 22}) ==
        "T\n\n"
        "            its own\n"
        "topic       value\n"
        "GPU driver  one of\n"
        "            several\n"
        "            words\n"
        "\n"
        "topic        n\n"
        "GPU driver  12\n");
  CHECK_THAT(render(table, Format::table), Contains("one of several words"));
}

TEST_CASE("show counts packages and shortens long properties, and shows all of them on request") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  auto experiment = an_experiment("e1");
  experiment.fingerprint = {{"cpu_flags", std::string(300, 'f')}, {"kernel", "6.1"}};
  for (int i = 0; i < 30; ++i) { experiment.fingerprint["package.p" + std::to_string(i)] = "1.2"; }
  store.add_experiment(experiment);
  const auto brief = render(show_experiment(store, "e1"), Format::table);
  CHECK_THAT(brief, Contains("kernel: 6.1") && !Contains("package.p1") && !Contains(std::string(60, 'f')) &&
                        Contains("30 packages of guests") && Contains("--packages"));
  CHECK_THAT(render(show_experiment(store, "e1", true), Format::table),
             Contains("package.p29: 1.2") && Contains(std::string(300, 'f')) && !Contains("--packages"));
}

TEST_CASE("list, show and changes fit 80 columns, a line each") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  auto experiment = an_experiment("20261129t134448-fb4319");
  experiment.scenario = "nightly-with-a-name";
  store.add_experiment(experiment);
  for (int pair = 1; pair <= 2; ++pair) {
    add_finished(store, experiment.id, "weak-scaling/16", "bare_metal_shared", pair, 12345.6, 16);
  }
  for (const auto& table : {experiments_table(store), show_experiment(store, experiment.id)}) {
    const auto text = render(table, Format::table, {false, 80});
    for (const auto& line : split(text, '\n')) {
      CHECK(text_width(line) <= 80);
      CHECK_FALSE(line.starts_with("    "));
    }
  }
  CHECK_THAT(render(experiments_table(store), Format::table, {false, 80}),
             Contains("2026-11-20 08:00  running       2\n"));
}

TEST_CASE("list and show come from the database alone") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  CHECK_THAT(render(experiments_table(store), Format::table), Contains("no experiments in"));
  auto experiment = an_experiment("e1");
  experiment.fingerprint = {{"kernel", "6.1"}};
  store.add_experiment(experiment);
  add_finished(store, "e1", "c", "vm", 1, 12.5);
  store.fail_trial(store.begin_trial(a_trial("e1", "c", "bare_metal", 1)), {"boot", "no hello", ""}, "t");
  CHECK_THAT(render(experiments_table(store), Format::csv),
             Contains("e1,quickstart,,2026-11-20T08:00:00.000Z,running,2,1,1,0"));
  store.add_event("e1", {1, 5, "t", "boot", "stage boot", nullptr});
  store.add_event("e1", {1,
                         6,
                         "t",
                         "agent",
                         "the guest's devices differ from the plan: gone",
                         {{"node", "t1n1"}, {"xml_that_mends_it", "<hostdev/>"}}});
  store.add_event("e1", {std::nullopt, 7, "t", "pairs", "stopped", {{"case", 5}, {"reason", {"x"}}}});
  store.add_event("e1", {1, 8, "t", "agent", "slow", nlohmann::json::array({"imported"})});
  const auto shown = render(show_experiment(store, "e1"), Format::table);
  CHECK_THAT(shown, Contains("the guest's devices differ from the plan: gone") && Contains("<hostdev/>") &&
                        !Contains("stage boot"));
  CHECK_THAT(shown, Contains("experiment e1: scenario quickstart") && Contains("12.5") &&
                        Contains("boot: no hello") && Contains("kernel: 6.1"));
  CHECK_THROWS_WITH(show_experiment(store, "e2"), Contains("e2"));
}

TEST_CASE("probes are a table, by arm and against bare metal, and list and show name them") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  std::vector<Probe> probes;
  for (const auto& [arm, value] : {std::pair{"bare_metal", 12e9}, {"vm", 9e9}, {"vm", 11e9}, {"vm", 9.5e9}}) {
    Probe probe;
    probe.name = "host_to_device";
    probe.arm = arm;
    probe.value = value;
    probe.unit = "B/s";
    probe.size_bytes = 1024;
    probes.push_back(probe);
  }
  store.add_probes("e1", probes);
  const auto text = render(probes_table(store, "e1"), Format::table);
  CHECK_THAT(text, Contains("12 GB/s") && Contains("9.5 GB/s") && Contains("79.2 %"));
  const auto rows = nlohmann::json::parse(render(probes_table(store, "e1"), Format::json));
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["arm"] == "vm");
  CHECK(rows[1]["n"] == 3);
  CHECK(rows[1]["value"] == 9.5e9);
  CHECK_THAT(render(show_experiment(store, "e1"), Format::table),
             Contains("no trials, 4 probes: virtrain show e1"));
  CHECK(nlohmann::json::parse(render(experiments_table(store), Format::json))[0]["probes"] == 4);
  CHECK_THAT(error_of([&] { store.select({}); }).message(), Contains("virtrain show --probes"));
  CHECK(error_of([&] { probes_table(store, "none"); }).code() == ErrorCode::not_found);
}

TEST_CASE("a probe that three runs of each side have measured has an interval and a verdict") {
  std::vector<Probe> probes;
  const auto add = [&](const char* arm, std::int64_t size, double bus, std::int64_t run) {
    Probe probe;
    probe.name = "all_reduce";
    probe.arm = arm;
    probe.value = probe.bus_bytes_per_second.emplace(bus);
    probe.unit = "B/s";
    probe.size_bytes = size;
    probe.run = run;
    probes.push_back(probe);
  };
  std::int64_t run = 0;
  for (const double noise : {0.999, 1.0, 1.001, 1.0005}) {
    ++run;
    add("bare_metal", 1 << 20, 320e9 * noise, run);
    add("vm", 1 << 20, 180e9 * noise, run);
    add("bare_metal", 1 << 10, 2e9 * noise, run);
    add("vm", 1 << 10, 2e9 * noise, run);
  }
  const auto rows = nlohmann::json::parse(render(probes_table(probes), Format::json));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["verdict"].is_null());
  CHECK(rows[1]["size_bytes"] == 1024);
  CHECK(rows[1]["verdict"] == "equivalent");
  CHECK(rows[3]["verdict"] == "worse");
  CHECK(rows[3]["ci_low"].get<double>() < 0.5625);
  CHECK(rows[3]["ci_high"].get<double>() > 0.5625);
  CHECK(rows[3]["ci_high"].get<double>() < 0.5645);
  const auto emulated = nlohmann::json::parse(render(probes_table(probes, {"vm"}), Format::json));
  CHECK(emulated[3]["verdict"] == "not_comparable");
  CHECK(emulated[3]["ci_low"].is_null());
  const auto has_verdict = [&] {
    const auto found = nlohmann::json::parse(render(probes_table(probes), Format::json));
    return !found[3]["verdict"].is_null();
  };
  for (auto& probe : probes) { probe.run = 1 + *probe.run / 3; }  // four readings of two runs
  CHECK_FALSE(has_verdict());
  for (auto& probe : probes) { probe.run.reset(); }
  CHECK_FALSE(has_verdict());  // logs of somebody else's, of which nobody knows how many runs they are
}

TEST_CASE("what a spreadsheet takes for a formula in other characters is defused, and nothing else") {
  for (const char* text :
       {"=1", "+1", "-1", "@a", "'a", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20a", "\u22121"}) {
    CAPTURE(text);
    CHECK(is_guarded(text));
  }
  for (const char* text : {"", "a=1", "1", "\uff11", "\u00e9"}) {
    CAPTURE(text);
    CHECK_FALSE(is_guarded(text));
  }
}
