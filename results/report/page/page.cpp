#include "results/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text/text.h"
#include "common/version.h"
#include "results/comparison/verdict.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

// Texts longer than this are folded in tables.
constexpr std::size_t long_text_bytes = 160;
constexpr std::size_t summary_bytes = 60;
// Larger tables are in the database only: `virtrain export` writes them.
constexpr std::size_t most_csv_bytes = std::size_t{256} << 10;

/// So many bytes of the text at most, never half a character.
std::string shortened(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) { return text; }
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) { --end; }
  return text.substr(0, end) + "…";
}

/// As a URL takes it: every byte but letters, digits and "-._~".
std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
                       std::string_view("-._~").find(letter) != std::string_view::npos;
    encoded += plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

struct Section {
  std::string id;
  std::string title;
  std::string spec;    ///< of its charts, or the section that they name
  std::string absent;  ///< what is said where there are none
};

/// With all that templates look for: they would find it in the page otherwise.
json section_model(const std::string& id, const std::string& title) {
  return {{"id", id},
          {"title", title},
          {"more", ""},
          {"has_note", false},
          {"section_note", ""},
          {"figures", json::array()},
          {"tables", json::array()},
          {"verdicts", false}};
}

const std::vector<Section>& chart_sections() {
  static const std::vector<Section> sections{
      {"ratios", "Ratios", "forest", "ratios: no case has runs of both arms"},
      {"images-per-second", "Throughput", "throughput", "throughput: no trial has a result"},
      {"speedup", "Scaling", "scaling",
       "speedup: no weak scaling (cases named FAMILY/NODES with FAMILY/1) on more than one node"},
      {"sweep", "Sweeps", "sweep", "sweeps: no case was run with several values of a key"},
      {"course", "Over time", "course", "throughput over time: no trial has stored samples"},
      {"tenants", "Tenants", "isolation",
       "tenants' heat map: no case has several tenants whose runs alone were measured too"},
      {"bandwidth", "Bandwidth", "probes",
       "bandwidth against size: no operation was probed at three sizes or more"},
      {"series", "From experiment to experiment", "series",
       "series: fewer than five experiments with a date are selected (--scenario or --label selects more)"}};
  return sections;
}

/// Sentence where there may be data for more figures of this kind than were drawn.
std::string left_out_words(const ReportData& data, const std::string& spec, std::size_t drawn) {
  if (spec == "course" && data.records.size() >= most_records) {
    return fmt::format(
        "Drawn are the first {} cases and arms that have samples; name an experiment or use --case for the "
        "others.",
        most_records);
  }
  if (spec == "probes" && drawn >= most_probe_charts) {
    return fmt::format("Drawn are at most {} operations; virtrain show --probes has the others.", drawn);
  }
  if (spec == "series" && drawn >= most_series_charts) {
    return fmt::format("Drawn are at most {} cases; use --case for the others.", drawn);
  }
  return "";
}

/// The sections in their order: the scaling first where it is what most was run for, and of several dates
/// what changed.
std::vector<Section> ordered_sections(const ReportData& data) {
  auto sections = chart_sections();
  const auto sizes =
      std::ranges::count_if(data.comparisons, [](const auto& one) { return one.key.scale.has_value(); });
  if (2 * sizes >= std::ssize(data.comparisons)) {
    const auto scaling = std::ranges::find(sections, "scaling", &Section::spec);
    std::rotate(sections.begin(), scaling, scaling + 1);
  }
  if (!data.changes.empty()) {
    std::ranges::stable_partition(sections, [](const Section& section) { return section.spec == "series"; });
  }
  return sections;
}

json figures_section(const ReportData& data, const Section& section, const std::vector<Chart>& charts) {
  json figures = json::array();
  for (const auto& chart : charts) {
    if ((chart.section.empty() ? chart.spec : chart.section) == section.spec) {
      figures.push_back(chart_model(chart));
    }
  }
  const auto note = left_out_words(data, section.spec, figures.size());
  auto model = section_model(section.id, section.title);
  model["has_note"] = !note.empty();
  model["section_note"] = note;
  model["figures"] = std::move(figures);
  return model;
}

/// The matrix of an isolation experiment, what helps, and then the arms without a neighbour.
json isolation_sections(const ReportData& data, const std::vector<Chart>& charts) {
  json sections = json::array();
  auto matrix = figures_section(data, {"neighbours", "Next to neighbours", "neighbours", ""}, charts);
  const bool has_matrix = !matrix["figures"].empty();
  if (has_matrix) { sections.push_back(std::move(matrix)); }
  if (const auto tables = mitigations_model(data); !tables.empty()) {
    sections.push_back(section_model("mitigations", "What helps how much"));
    sections.back()["tables"] = tables;
  }
  if (const auto verdicts = verdicts_model(data); has_matrix && verdicts != false) {
    sections.push_back(section_model("alone", "Without a neighbour"));
    sections.back()["verdicts"] = verdicts;
  }
  return sections;
}

/// In the order of the page.
json sections_model(const ReportData& data, const std::vector<Chart>& charts, json& absent) {
  json sections = isolation_sections(data, charts);
  for (const auto& section : ordered_sections(data)) {
    auto model = figures_section(data, section, charts);
    if (model["figures"].empty()) {
      absent.push_back({{"words", section.absent}});
      continue;
    }
    sections.push_back(std::move(model));
  }
  return sections;
}

/// Sections that are tables alone, as far as there are any.
json table_sections_model(const ReportData& data, json& absent) {
  json sections = json::array();
  const auto add = [&](const char* id, const char* title, const char* more, const json& tables) {
    if (tables.empty()) { return; }
    sections.push_back(section_model(id, title));
    sections.back()["more"] = more;
    sections.back()["tables"] = tables;
  };
  add("costs", "Energy and money", "", costs_model(data));
  add("security", "Isolation", ": what was tried, what was found, what could not be told",
      security_model(data));
  add("hosts", "Hosts", ": which one the others wait for", hosts_model(data));
  add("figures", "Figures of jobs", "", job_figures_model(data));
  add("probes", "Probes", "", probes_model(data));
  add("predictions", "Beyond the measured sizes", "", predictions_model(data, absent));
  return sections;
}

/// "3 properties differ between the arms, kernel forbids a verdict": the environment's table says more.
std::string differences_sentence(const ReportData& data) {
  std::set<std::string> fields;
  std::set<std::string> fatal;
  for (const auto& comparison : data.comparisons) {
    for (const auto& difference : comparison.differences) {
      fields.insert(difference.field);
      if (forbids(difference)) { fatal.insert(difference.field); }
    }
  }
  if (fields.empty()) { return ""; }
  return fmt::format(
      "{} {} between the arms (see Environment){}.", fields.size(),
      fields.size() == 1 ? "property differs" : "properties differ",
      fatal.empty() ? "" : fmt::format("; what forbids a verdict: {}", fmt::join(fatal, ", ")));
}

/// Notes that the verdicts list does not have elsewhere: differences are in a table of their own, and as the
/// report asks for predictions of its own accord, a case that can have none is no news.
bool is_news(const std::string& note, const CaseComparison& comparison) {
  if (note.starts_with("no prediction")) { return false; }
  return std::ranges::none_of(comparison.differences, [&](const auto& difference) {
    return note == to_sentence(difference, comparison.baseline, comparison.candidate);
  });
}

/// "Published figures: NAME (experiment ID)." where any of the experiments was published by somebody.
std::string source_sentence(const ReportData& data) {
  std::vector<std::string> ids;
  for (const auto& experiment : data.experiments) {
    if (experiment.label == "published") { ids.push_back(experiment.id); }
  }
  if (ids.empty()) { return ""; }
  std::set<std::string> sources;
  for (const auto& [arm, facts] : data.facts) {
    const auto found = facts.find("source");
    if (found != facts.end()) { sources.insert(found->second.begin(), found->second.end()); }
  }
  return fmt::format(
      "Published figures: {} ({} {}).",
      sources.empty() ? "the source was not recorded" : fmt::format("{}", fmt::join(sources, "; ")),
      ids.size() == 1 ? "experiment" : "experiments", join(ids, ", "));
}

/// "VM, pinned helps trainer most: next to cpu@100% it loses 4 % (3 to 5), without 50 % (49 to 51)."; empty
/// where nothing helps.
std::string help_sentence(const ReportData& data) {
  const Mitigation* best = nullptr;
  for (const auto& one : data.isolation.mitigations) {
    if (one.verdict != Help::helps || !one.with || !one.without || !one.relief) { continue; }
    if (best == nullptr || *one.relief > *best->relief) { best = &one; }
  }
  if (best == nullptr) { return ""; }
  return fmt::format("{} helps {} most: next to {} it loses {}, without {}.",
                     capitalised(arm_words(best->arm)), best->case_name, best->neighbour,
                     to_text(*best->with, false), to_text(*best->without, false));
}

json notes_model(const ReportData& data) {
  std::vector<CaseComparison> named;
  for (const auto& comparison : data.comparisons) { named.push_back(in_words(comparison)); }
  json notes = json::array();
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) { notes.push_back({{"sentence", sentence}}); }
  };
  add(help_sentence(data));
  if (const auto arms = arms_beside_neighbours(data); arms.size() > 1) {
    for (const auto* matrix : arms) {
      add(fmt::format("{}, {}: {}.", matrix->case_name, arm_words(matrix->arm), neighbours_phrase(*matrix)));
    }
  }
  add("Virtualization: " + virtualization_sentence(named) + ".");
  add(source_sentence(data));
  std::set<std::string> variants, beside;
  for (const auto& [arm, alone] : data.beside) { beside.insert(arm); }
  for (const auto& experiment : data.experiments) {
    for (const auto& sentence : variant_sentences(experiment.plan, beside)) {
      if (variants.insert(sentence).second) { add(sentence); }
    }
  }
  const auto family = family_sentence(data.comparisons, [](const auto& arm) { return arm_words(arm); });
  if (!family.empty()) { add(family + "."); }
  add(differences_sentence(data));
  std::vector<std::pair<std::string, std::vector<std::string>>> by_sentence;
  for (const auto& comparison : data.comparisons) {
    for (const auto& note : comparison.notes) {
      if (!is_news(note, comparison)) { continue; }
      auto known = std::ranges::find_if(by_sentence, [&](const auto& one) { return one.first == note; });
      if (known == by_sentence.end()) { known = by_sentence.insert(by_sentence.end(), {note, {}}); }
      known->second.push_back(comparison.case_name);
    }
  }
  for (const auto& [sentence, cases] : by_sentence) {
    const bool all = cases.size() == named.size();
    add((all ? capitalised(sentence) : join(cases, ", ") + ": " + sentence) + ".");
  }
  return notes;
}

/// "one experiment of 2026-11-20 on host a": what the page is about, in a line.
json about_model(const ReportData& data) {
  std::set<std::string> scenarios, hosts, days, labels;
  for (const auto& experiment : data.experiments) {
    scenarios.insert(experiment.scenario);
    if (!experiment.host_name.empty()) { hosts.insert(experiment.host_name); }
    if (!experiment.started_at.empty()) { days.insert(experiment.started_at.substr(0, 10)); }
    if (!experiment.label.empty()) { labels.insert(experiment.label); }
  }
  json facts = json::array();
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) { facts.push_back({{"name", name}, {"fact", value}}); }
  };
  add("Experiments", std::to_string(data.experiments.size()));
  add("Trials", std::to_string(data.trials.size()));
  if (!days.empty()) {
    add("Measured",
        *days.begin() == *days.rbegin() ? *days.begin() : *days.begin() + " to " + *days.rbegin());
  }
  add("Host", fmt::format("{}", fmt::join(hosts, ", ")));
  add("Label", fmt::format("{}", fmt::join(labels, ", ")));
  const auto percent = [](double share) { return fmt::format("{:.4g} %", share * 100); };
  add("Margin", percent(data.request.compare.settings.margin));
  if (!data.isolation.matrices.empty()) {
    add("Margin of isolation", percent(data.isolation.matrices.front().settings.margin));
  }
  return {{"scenarios", fmt::format("{}", fmt::join(scenarios, ", "))}, {"about", facts}};
}

}  // namespace

json chart_model(const Chart& chart) {
  // In full precision, and without scripts: a link that has the file in itself.
  const auto csv = render(chart.table, Format::csv);
  const bool has_csv = csv.size() <= most_csv_bytes;
  json model{{"id", chart.id},
             {"has_csv", has_csv},
             {"csv", has_csv ? "data:text/csv;charset=utf-8," + percent_encoded(csv) : ""},
             {"title", chart.title},
             {"summary", chart.summary},
             {"zoom", chart.zoom},
             {"key", json::array()},
             {"table", table_model(chart.table, "Values of the figure “" + chart.title + "”")}};
  for (const auto& entry : chart.key) {
    model["key"].push_back({{"mark", entry.mark}, {"words", entry.words}});
  }
  return model;
}

json table_model(const Table& whole, const std::string& caption) {
  auto hiding = whole;
  for (auto& column : hiding.columns) { column.hide_empty = true; }  // a head above nothing says nothing
  const auto table = without_empty_columns(std::move(hiding));
  json model{{"caption", caption},
             {"columns", json::array()},
             {"rows", json::array()},
             {"table_notes", json::array()}};
  for (const auto& column : table.columns) {
    model["columns"].push_back({{"head", column.head}, {"right", column.right}});
  }
  for (const auto& row : table.rows) {
    json cells = json::array();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_long = row[i].text.size() > long_text_bytes;
      cells.push_back({{"text", row[i].text},
                       {"right", table.columns[i].right},
                       {"is_head", i == 0},
                       {"is_long", is_long},
                       {"start", is_long ? shortened(row[i].text, summary_bytes) : ""}});
    }
    model["rows"].push_back({{"cells", cells}});
  }
  for (const auto& note : table.notes) { model["table_notes"].push_back({{"sentence", note}}); }
  return model;
}

std::vector<Chart> charts_of(const ReportData& data) {
  const ArmOrder order(data);
  std::vector<Chart> charts;
  for (auto&& part : {forest_charts(data), throughput_charts(data, order), scaling_charts(data, order),
                      sweep_charts(data, order), course_charts(data, order), isolation_charts(data),
                      neighbour_charts(data), probe_charts(data, order), series_charts(data, order)}) {
    charts.insert(charts.end(), part.begin(), part.end());
  }
  return charts;
}

json page_model(const ReportData& data, const std::vector<Chart>& charts) {
  json absent = json::array();
  json model = about_model(data);
  const auto words = headline(data);
  model["headline"] = words;
  model["title"] = shortened(model["scenarios"].get<std::string>(), summary_bytes) + ": " + words;
  model["notes"] = notes_model(data);
  model["sections"] = sections_model(data, charts, absent);
  const auto is_matrix = [](const json& section) { return section["id"] == "neighbours"; };
  const bool of_isolation = std::ranges::any_of(model["sections"], is_matrix);
  model["verdicts"] = of_isolation ? json(false) : verdicts_model(data);  // they have a section of their own
  model["reasons"] = reasons_model(data);
  model["table_sections"] = table_sections_model(data, absent);
  model["environment"] = environment_model(data);
  model["trials"] = trials_model(data);
  model["again"] = again_model(data);
  model["has_absent"] = !absent.empty();
  model["absent"] = absent;
  model["version"] = virtrain_version;
  return model;
}

}  // namespace virtrain::results
