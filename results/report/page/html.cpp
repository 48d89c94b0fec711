#include "results/report/page/html.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <set>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/sha256.h"
#include "report_embedded.h"
#include "results/report/charts/draw_charts.h"

namespace virtrain::results {
namespace {

using MustacheData = kainjow::mustache::data;
using nlohmann::json;

/// Parts of the page besides texts: scripts, styles, drawn charts. They are HTML or code and whole; all else
/// passes the gate.
bool is_ours(const std::string& name) {
  static const std::set<std::string> ours{"script_hashes", "styles", "bundle", "script",   "charts",
                                          "narrow",        "wide",   "csv",    "sparkline"};
  return ours.contains(name);
}

MustacheData mustache_of(const json& value) {
  switch (value.type()) {
    case json::value_t::object: {
      MustacheData object{MustacheData::type::object};
      for (const auto& [name, member] : value.items()) {
        const bool as_it_is = is_ours(name) && member.is_string();
        object.set(name, as_it_is ? MustacheData{member.get<std::string>()} : mustache_of(member));
      }
      return object;
    }
    case json::value_t::array: {
      MustacheData list{MustacheData::type::list};
      for (const auto& element : value) { list.push_back(mustache_of(element)); }
      return list;
    }
    case json::value_t::boolean:
      return value.get<bool>() ? MustacheData{MustacheData::type::bool_true}
                               : MustacheData{MustacheData::type::bool_false};
    case json::value_t::string:
      return MustacheData{printable(value.get<std::string>())};
    default:
      return MustacheData{dump_json(value)};
  }
}

/// A digest as a Content-Security-Policy names it.
std::string policy_hash(std::string_view script) {
  return "'sha256-" + sha256_base64(script) + "'";
}

/// HTML whose dates have an element of their own: browsers break lines at their hyphens.
std::string with_whole_dates(std::string_view html) {
  std::string text;
  while (!html.empty()) {
    Scanner in(html);
    const bool is_date =
        in.take_digits(4) && in.take("-") && in.take_digits(2) && in.take("-") && in.take_digits(2);
    const auto length = is_date ? html.size() - in.rest().size() : 1;
    const auto taken = html.substr(0, length);
    text += is_date ? fmt::format(R"(<span class="date">{}</span>)", taken) : std::string(taken);
    html.remove_prefix(length);
  }
  return text;
}

}  // namespace

std::string render_template(std::string_view text, const json& model,
                            const std::map<std::string, std::string_view>& partials) {
  kainjow::mustache::mustache page{std::string(text)};
  if (!page.is_valid()) { throw Error("read a template of the report", ErrorCode::io, page.error_message()); }
  MustacheData values = mustache_of(model);
  for (const auto& [name, partial] : partials) {
    values.set(
        name, MustacheData{kainjow::mustache::partial{[partial = std::string(partial)] { return partial; }}});
  }
  values.set("dated", MustacheData{kainjow::mustache::lambda2{
                          [](const std::string& part, const kainjow::mustache::renderer& rendered) {
                            return with_whole_dates(rendered(part));
                          }}});
  auto html = page.render(values);
  if (!page.error_message().empty()) {
    throw Error("write the report", ErrorCode::io, "template: " + page.error_message());
  }
  return html;
}

namespace {

/// A page of ours: styles, scripts and charts are inside.
std::string whole_page(std::string_view text, const json& page_model, const json& charts,
                       const Pictures& pictures) {
  json model = page_model;
  for (auto& section : model["sections"]) {
    if (!section.contains("figures")) { continue; }
    for (auto& figure : section["figures"]) {
      const auto drawn = pictures.find(figure["id"].get<std::string>());
      figure["has_pictures"] = drawn != pictures.end();
      if (drawn == pictures.end()) { continue; }
      figure["has_narrow"] = drawn->second.size() > 1;
      figure["narrow"] = drawn->second.front();
      figure["wide"] = drawn->second.back();
    }
  }
  model["styles"] = report::report_css;
  model["bundle"] = vega_bundle();
  model["script"] = report::page_js;
  model["script_hashes"] = policy_hash(vega_bundle()) + " " + policy_hash(report::page_js);
  model["charts"] = script_json(charts);
  return render_template(text, model,
                         {{"page_head", report::page_head_html},
                          {"page_foot", report::page_foot_html},
                          {"figure", report::figure_html},
                          {"values", report::table_html},
                          {"series_table", report::series_table_html},
                          {"trials_table", report::trials_table_html},
                          {"verdicts_table", report::verdicts_table_html}});
}

}  // namespace

std::string page_html(const json& page_model, const json& charts, const Pictures& pictures) {
  return whole_page(report::page_html, page_model, charts, pictures);
}

std::string site_html(const json& site_model, const json& charts, const Pictures& pictures) {
  return whole_page(report::site_html, site_model, charts, pictures);
}

}  // namespace virtrain::results
