#include "results/report/page/html.h"

#include <fstream>
#include <regex>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "results/report/charts/draw_charts.h"
#include "tests/support/catch.h"

namespace virtrain::results {
namespace {

TEST_CASE("JSON in a script element cannot end it") {
  const std::string hostile = "</script><!--<script>alert(1)</script>\u2028\u2029&amp;\"'";
  const auto text = script_json({{"name", hostile}});
  CHECK(text.find('<') == std::string::npos);
  CHECK(text.find('>') == std::string::npos);
  CHECK(text.find('&') == std::string::npos);
  CHECK(text.find("\xE2\x80\xA8") == std::string::npos);
  CHECK(nlohmann::json::parse(text)["name"] == hostile);
  CHECK_NOTHROW(script_json({{"bytes", "\xff\xfe"}}));
}

TEST_CASE("templates escape what they show") {
  const nlohmann::json model{{"name", "<b>\"&'"}, {"list", {{{"name", "<i>"}}}}, {"number", 4}};
  CHECK(render_template("{{name}}", model, {}) == "&lt;b&gt;&quot;&amp;&apos;");
  CHECK(render_template("{{#list}}{{>part}}{{/list}} {{number}}", model, {{"part", "[{{name}}]"}}) ==
        "[&lt;i&gt;] 4");
  CHECK(render_template("{{name}}", {{"name", "a\x01z"}}, {}) == "a\xEF\xBF\xBDz");
  CHECK(render_template("{{#dated}}{{name}}{{/dated}}", {{"name", "<b> 2026-10-25, 2026-1-2"}}, {}) ==
        "&lt;b&gt; <span class=\"date\">2026-10-25</span>, 2026-1-2");
  CHECK_THROWS_AS(render_template("{{#open}}", model, {}), Error);
}

TEST_CASE("only what we made ourselves goes into the page as it is") {
  const std::set<std::string> ours{"script_hashes", "styles", "bundle", "script", "charts",
                                   "narrow",        "wide",   "csv",  // percent-encoded to the last byte
                                   "sparkline"};                      // numbers alone
  const std::regex raw(R"(\{\{\{\s*(\w+)\s*\}\}\}|\{\{&\s*(\w+))");
  int found = 0;
  const std::filesystem::path folder = std::string(VIRTRAIN_SOURCE_DIR) + "/results/report/page/templates";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const auto text = read_file(file.path()).value();
    for (std::sregex_iterator at(text.begin(), text.end(), raw), end; at != end; ++at) {
      CAPTURE(file.path(), (*at)[0].str());
      CHECK(ours.contains((*at)[1].str()));
      ++found;
    }
  }
  CHECK(found == 9);  // both pages have one head and one foot
}

TEST_CASE("scripts of the page are in it whole, however long") {
  const auto page = page_html({{"sections", nlohmann::json::array()}}, {{"specs", "\u202e"}}, {});
  CHECK(vega_bundle().size() > longest_shown_bytes);
  CHECK(page.find(vega_bundle()) != std::string::npos);
  CHECK(page.find("\u202e") == std::string::npos);
}

TEST_CASE("names in live charts hide nothing") {
  Chart chart;
  chart.spec = "forest";
  chart.data["rows"] = {{{"case", "a\u202e\u2028b"}, {"tip", {"c\x1b[2J"}}}};
  chart.signals["title"] = "d\ufeff";
  const auto drawn = charts_json({chart})["charts"][0];
  CHECK(drawn["data"]["rows"][0]["case"] == "a\ufffd\ufffdb");
  CHECK(drawn["data"]["rows"][0]["tip"][0] == "c\ufffd[2J");
  CHECK(drawn["signals"]["title"] == "d\ufffd");
}

TEST_CASE("node draws a chart by the code of the page, hostile names as text") {
  Chart chart;
  chart.id = "forest";
  chart.spec = "forest";
  chart.signals = {{"count", 1}, {"domain", {0.9, 1.1}}, {"band", {0.98, 1.0204}}};
  chart.data["rows"] = {{{"case", "<script>alert(1)</script>"},
                         {"position", 0},
                         {"ratio", 0.99},
                         {"shown", 0.99},
                         {"off", 0},
                         {"interval", false},
                         {"words", "\"><img src=x>\x1b[2J\u202e"},
                         {"tip", ""}}};
  auto other = chart;
  other.id = "other";
  const auto pages = draw_charts({charts_json({chart}), charts_json({other})});
  REQUIRE(pages.size() == 2);  // by one process
  CHECK(pages[1].contains("other"));
  const auto& pictures = pages[0];
  REQUIRE(pictures.at("forest").size() == std::size(static_widths));
  for (const auto& svg : pictures.at("forest")) {
    CHECK(svg.starts_with("<svg"));
    CHECK(svg.find("<script") == std::string::npos);
    CHECK(svg.find("<img") == std::string::npos);
    CHECK(svg == printable(svg, std::string::npos));
    CHECK(svg.find("&lt;script&gt;") != std::string::npos);
  }
}

}  // namespace
}  // namespace virtrain::results
