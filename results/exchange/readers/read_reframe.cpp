// Performance logs of reframe-hpc/reframe. Versions 2 and 3 write, where no site changed the format,
//   2020-06-24T00:27:06|reframe 3.1|Test on system:partition using env|jobid=1|Copy=24762.2|ref=…|MB/s
// and versions from 4.3 on a line that names the columns, of which NAME_value and NAME_unit belong together.
#include <fmt/format.h>

#include <algorithm>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/records/spellings.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// What a line says of a test but its figures.
struct ReframeRun {
  std::string test;
  json facts = json::object();    ///< where it ran: system, partition, environ; and its result if it failed
  std::string completed_at = {};  ///< in UTC; empty where the line has no time with a zone
  bool failed = false;
};

/// System, partition and environ of "Test on cluster:gpu using gnu" and of version 4's "Test
/// @cluster:gpu+gnu"; none if the text has neither form.
json facts_in(std::string_view info) {
  const auto old_mark = info.find(" on "), mark = info.rfind(" @");
  Scanner in(old_mark != info.npos ? info.substr(old_mark + 4)
             : mark != info.npos   ? info.substr(mark + 2)
                                   : std::string_view());
  const auto system = in.take_while([](char c) { return c != ':'; });
  if (!in.take(":")) { return json::object(); }
  const auto partition = in.take_while([](char c) { return c != ' ' && c != '+'; });
  if (!in.take(" using ") && !in.take("+")) { return json::object(); }
  return {{"system", system}, {"partition", partition}, {"environ", trim(in.rest())}};
}

class ReframeReader {
 public:
  ReframeReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      const auto line = trim(lines_.line());
      if (line.empty()) { continue; }
      if (!lines_.has_end()) {
        left_out_.add(torn_line);
        break;
      }
      if (std::ranges::count(line, '|') >= static_cast<std::ptrdiff_t>(most_cells)) {
        lines_.refuse("more than {} cells in a line", most_cells);
      }
      const auto cells = split(line, '|');
      if (is_reframe_header(line)) {
        columns_ = cells;
      } else if (!columns_.empty()) {
        read_row(cells);
      } else {
        read_line(cells);
      }
    }
    if (figures_taken() == 0) {
      lines_.refuse(
          "no performance variable of it is in images per second, bytes per second, FLOP/s or seconds");
    }
    // It reads figures only of tests that passed their sanity checks. To leave out those that are far from
    // what was expected would make up an agreement.
    if (failed_rows_ > 0) {
      importer_.note(fmt::format(
          "the figures of {} with the result fail were taken: ReFrame says so where one misses its reference",
          counted(failed_rows_, "row")));
    }
    left_out_.report(importer_);
  }

 private:
  void read_row(const std::vector<std::string>& cells) {
    if (cells.size() != columns_.size()) {
      lines_.refuse("{} where the header names {}", counted(cells.size(), "cell"), columns_.size());
    }
    const auto cell = [&](std::string_view name) {
      const auto found = std::ranges::find(columns_, name);
      return found == columns_.end() ? "" : cells[static_cast<std::size_t>(found - columns_.begin())];
    };
    const auto test = cell("display_name").empty() ? cell("name") : cell("display_name");
    ReframeRun run{test.empty() ? cell("info") : test, facts_in(cell("info"))};
    for (const char* key : {"system", "partition", "environ"}) {
      if (const auto text = cell(key); is_known(text)) { run.facts[key] = text; }
    }
    // The time is as the site wants it, with a zone or without; newer versions add the seconds since 1970.
    run.completed_at =
        in_utc(cell("job_completion_time")).value_or(time_at(parse_number(cell("job_completion_time_unix"))));
    run.failed = cell("result") == "fail";
    if (run.failed) { run.facts["result"] = "fail"; }
    const auto taken = figures_taken();
    constexpr std::string_view suffix = "_value";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].ends_with(suffix)) { continue; }
      const auto name = columns_[i].substr(0, columns_[i].size() - suffix.size());
      add(run, name, cells[i], cell(name + "_unit"));
    }
    if (run.failed && figures_taken() > taken) { ++failed_rows_; }
  }

  /// ReFrame writes so what it does not know, and Python what is not there.
  static bool is_known(const std::string& cell) { return !cell.empty() && cell != "null" && cell != "None"; }

  std::int64_t figures_taken() const { return importer_.report().trials + importer_.report().probes; }

  void read_line(const std::vector<std::string>& cells) {
    const auto is_value = [](const std::string& cell) {
      const auto at = cell.find('=');
      return at != std::string::npos && parse_number(cell.substr(at + 1)) && !cell.starts_with("jobid=") &&
             !cell.starts_with("num_tasks=") && !cell.starts_with("ref=");
    };
    const auto found = std::ranges::find_if(cells, is_value);
    if (cells.size() < 5 || found == cells.end()) {
      lines_.refuse("a line DATE|reframe VERSION|TEST|jobid=N|NAME=VALUE|ref=…|UNIT was expected");
    }
    const auto at = found->find('=');
    // The unit is the last cell; where a site put it directly behind the value, the test's tags are.
    const auto next = std::next(found);
    const bool is_unit_next = next != cells.end() && !next->starts_with("ref=");
    const ReframeRun run{cells[2].substr(0, cells[2].find(" on ")), facts_in(cells[2]),
                         in_utc(cells[0]).value_or("")};
    add(run, found->substr(0, at), found->substr(at + 1), is_unit_next ? *next : cells.back());
  }

  void add(const ReframeRun& run, const std::string& name, const std::string& text, const std::string& unit) {
    const auto value = parse_number(text);
    const auto probe_unit = probe_unit_of(trim(unit));
    if (text == "null") {
      if (run.failed) { left_out_.add(name + " of a failed test"); }
      return;
    }
    if (!value) { lines_.refuse("{} is \"{}\", which is not a finite number", excerpt(name), excerpt(text)); }
    if (*value < 0 && (probe_unit || is_images_per_second(trim(unit)))) {
      lines_.refuse("{} is {}, it must not be negative", excerpt(name), *value);
    }
    if (is_images_per_second(trim(unit))) {
      TrainingFigure figure{*value, run.test, name, {}, {{"source", "reframe"}, {"metric", name}}};
      figure.environment.update(run.facts);
      auto record = trial_of(figure, settings_, lines_);
      if (record["started_at"].is_null()) { record["started_at"] = value_json(run.completed_at); }
      importer_.add(record, lines_.position());
    } else if (probe_unit) {
      auto probe = record_of(settings_, lines_);
      probe.update({{"record", "probe"}, {"name", run.test + "/" + name}, {"unit", probe_unit->unit}});
      probe["value"] = *value * probe_unit->factor;
      probe["nodes"] = value_json(settings_.nodes);
      probe["measured_at"] =
          value_json(settings_.started_at.empty() ? run.completed_at : settings_.started_at);
      probe["detail"] = {{"source", "reframe"}};
      probe["detail"].update(run.facts);
      importer_.add(probe, lines_.position());
    } else {
      left_out_.add(in_unit(name, unit));
    }
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::vector<std::string> columns_;
  std::int64_t failed_rows_ = 0;  ///< with figures
  LeftOut left_out_;
};

}  // namespace

bool is_reframe_header(std::string_view line) {
  return line.find("job_completion_time|") != line.npos && line.find("_value|") != line.npos;
}

void read_reframe(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  ReframeReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
