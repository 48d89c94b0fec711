// Performance logs of reframe-hpc/reframe. Versions 2 and 3 write, where no site changed the format,
//   2020-06-24T00:27:06|reframe 3.1|Test on system:partition using env|jobid=1|Copy=24762.2|ref=…|MB/s
// and versions from 4.3 on a line that names the columns, of which NAME_value and NAME_unit belong together.
// The report in JSON has "perfvars" until version 4.6, then "perfvalues".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/records/exchange_columns.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Facts about a test in a line, without its figures.
struct ReframeRun {
  std::string test;
  json facts = json::object();    ///< where it ran: system, partition, environ; and its result if it failed
  std::string completed_at = {};  ///< in UTC; empty where the line has no time with a zone
  bool failed = false;
  std::optional<std::int64_t> tasks = {}, gpus_per_node = {}, nodes = {};  ///< where it says so
};

/// A variable in images a second.
struct ReframeThroughput {
  std::string name, position;
  double value = 0;
};

/// A run whose lines give one variable each: other runs' lines may stand between them.
struct OpenRun {
  ReframeRun run;
  std::string test, job, time;  ///< as they stand there; the job's number may be missing
  std::vector<ReframeThroughput> throughputs = {};
};

/// A count of one or more; nothing of "null" and other text.
std::optional<std::int64_t> count_of_cell(std::string_view text) {
  constexpr std::int64_t most = 1'000'000;
  const auto count = parse_integer(trim(text));
  return count && *count >= 1 && *count <= most ? count : std::nullopt;
}

/// Nodes of "n1,n2"; nothing of a list in another form.
std::optional<std::int64_t> nodes_in(std::string_view list) {
  if (trim(list).empty() || list == "null" || list == "None" || list.find('[') != list.npos) {
    return std::nullopt;
  }
  return std::ranges::count(list, ',') + 1;
}

/// Seconds of the day of "2021-06-24T00:27:06.101+02:00", and its day: log files have a zone or none.
std::optional<std::pair<std::string, double>> clock_time_of(const std::string& time) {
  constexpr std::size_t day = 10, clock = 19;
  if (time.size() < clock || time[day] != 'T') { return std::nullopt; }
  const auto part = [&](std::size_t at) { return parse_integer(time.substr(at, 2)); };
  const auto hour = part(11), minute = part(14), second = part(17);
  if (!hour || !minute || !second) { return std::nullopt; }
  return std::pair(time.substr(0, day), static_cast<double>((*hour * 60 + *minute) * 60 + *second));
}

/// Whether lines of these times may be of one run, whose variables are written one after the other.
bool are_of_one_moment(const std::string& first, const std::string& second) {
  if (first == second) { return true; }
  constexpr double most_seconds = 5;
  const auto one = clock_time_of(first), other = clock_time_of(second);
  return one && other && one->first == other->first && std::abs(one->second - other->second) <= most_seconds;
}

/// "partition" of "system:partition", and the variable of "system:partition:variable".
std::string last_part(const std::string& text) {
  return text.substr(text.rfind(':') + 1);
}

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
    is_json(lines_) ? read_report(read_document(lines_)) : read_lines();
    finish_run();
    for (auto& one : open_runs_) {
      run_ = one.run;
      throughputs_ = std::move(one.throughputs);
      finish_run();
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
  void read_lines() {
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
  }

  /// The report of --report-file: a test of a run has its variables in one of two forms.
  void read_report(const json& report) {
    for (const auto& run : member(report, "runs")) {
      for (const auto& test : member(run, "testcases")) { read_case(test); }
    }
  }

  void read_case(const json& test) {
    const auto said = [&](std::initializer_list<const char*> keys) {
      for (const char* key : keys) {
        if (auto text = text_in(test, key); !text.empty()) { return text; }
      }
      return std::string();
    };
    finish_run();
    run_ = {said({"display_name", "name"})};
    // Until version 4.7 the system names its partition: "cluster:gpu".
    const auto system = text_in(test, "system");
    const auto add_fact = [&](const char* key, const std::string& value) {
      if (is_known(value)) { run_.facts[key] = value; }
    };
    add_fact("system", system.substr(0, system.find(':')));
    add_fact("partition", system.find(':') == system.npos ? text_in(test, "partition") : last_part(system));
    add_fact("environ", said({"environ", "environment"}));
    run_.completed_at = in_utc(text_in(test, "job_completion_time"))
                            .value_or(time_at(number_of(member(test, "job_completion_time_unix"))));
    run_.failed = text_in(test, "result").starts_with("fail");
    if (run_.failed) { run_.facts["result"] = "fail"; }
    const auto count = [&](const char* key) { return count_of_cell(dump_json(member(test, key))); };
    run_.tasks = count("num_tasks");
    run_.gpus_per_node = count("num_gpus_per_node");
    for (const char* key : {"job_nodelist", "nodelist"}) {
      const auto& list = member(test, key);
      if (list.is_array() && !list.empty()) { run_.nodes = std::ssize(list); }
    }
    if (run_.test.empty()) { lines_.refuse("a test case of the report without a name"); }
    const auto taken = figures_taken();
    for (const auto& [key, value] : member(test, "perfvalues").items()) {
      const auto at = [&](std::size_t i) { return value.is_array() && i < value.size() ? value[i] : json(); };
      add_json(last_part(key), at(0), at(4));
    }
    for (const auto& variable : member(test, "perfvars")) {
      add_json(text_in(variable, "name"), member(variable, "value"), member(variable, "unit"));
    }
    finish_run();
    if (run_.failed && figures_taken() > taken) { ++failed_rows_; }
  }

  /// A figure of the report; null is one that a failed test does not have.
  void add_json(const std::string& name, const json& value, const json& unit) {
    if (name.empty()) { lines_.refuse("{}: a performance variable without a name", excerpt(run_.test)); }
    add(name,
        value.is_null()     ? "null"
        : value.is_string() ? value.get<std::string>()
                            : dump_json(value),
        unit.is_string() ? unit.get<std::string>() : "");
  }

  void read_row(const std::vector<std::string>& cells) {
    if (cells.size() != columns_.size()) {
      lines_.refuse("{} where the header names {}", counted(cells.size(), "cell"), columns_.size());
    }
    const auto cell = [&](std::string_view name) {
      const auto found = std::ranges::find(columns_, name);
      return found == columns_.end() ? "" : cells[static_cast<std::size_t>(found - columns_.begin())];
    };
    finish_run();
    const auto test = cell("display_name").empty() ? cell("name") : cell("display_name");
    run_ = {test.empty() ? cell("info") : test, facts_in(cell("info"))};
    auto& run = run_;
    for (const char* key : {"system", "partition", "environ"}) {
      if (const auto text = cell(key); is_known(text)) { run.facts[key] = text; }
    }
    // The time is as the site wants it, with a zone or without; newer versions add the seconds since 1970.
    run.completed_at =
        in_utc(cell("job_completion_time")).value_or(time_at(parse_number(cell("job_completion_time_unix"))));
    run.failed = cell("result") == "fail";
    run.tasks = count_of_cell(cell("num_tasks"));
    run.gpus_per_node = count_of_cell(cell("num_gpus_per_node"));
    run.nodes = nodes_in(cell("job_nodelist"));
    if (run.failed) { run.facts["result"] = "fail"; }
    const auto taken = figures_taken();
    constexpr std::string_view suffix = "_value";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].ends_with(suffix)) { continue; }
      const auto name = columns_[i].substr(0, columns_[i].size() - suffix.size());
      add(name, cells[i], cell(name + "_unit"));
    }
    finish_run();
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
    const auto named = [&](std::string_view name) {
      const auto cell = std::ranges::find_if(cells, [&](const auto& one) { return one.starts_with(name); });
      return cell == cells.end() ? "" : cell->substr(name.size());
    };
    run_ = {cells[2].substr(0, cells[2].find(" on ")), facts_in(cells[2]), in_utc(cells[0]).value_or("")};
    run_.tasks = count_of_cell(named("num_tasks="));
    run_.gpus_per_node = count_of_cell(named("num_gpus_per_node="));
    add(found->substr(0, at), found->substr(at + 1), is_unit_next ? *next : cells.back());
    for (auto& throughput : std::exchange(throughputs_, {})) {
      run_of_line(cells[2], named("jobid="), cells[0], throughput.name).throughputs.push_back(throughput);
    }
  }

  /// The run that a line belongs to: it has a line for each variable, and each variable once.
  OpenRun& run_of_line(const std::string& test, const std::string& job, const std::string& time,
                       const std::string& variable) {
    constexpr std::size_t most_looked_at = 100;  // lines of other runs between those of one
    const auto begin = open_runs_.size() - std::min(open_runs_.size(), most_looked_at);
    for (auto i = begin; i < open_runs_.size(); ++i) {
      auto& one = open_runs_[i];
      const bool is_same_job = one.job == job || one.job.empty() || job.empty();
      const bool has_variable =
          std::ranges::any_of(one.throughputs, [&](const auto& known) { return known.name == variable; });
      if (one.test == test && is_same_job && !has_variable && are_of_one_moment(one.time, time)) {
        return one;
      }
    }
    return open_runs_.emplace_back(OpenRun{run_, test, job, time});
  }

  /// Several throughputs of one run are one figure in several scopes: of the whole job counts, and those of a
  /// device must fit it.
  void finish_run() {
    const auto figures = std::exchange(throughputs_, {});
    if (figures.empty()) { return; }
    const auto of = [&](Scope scope) {
      return std::ranges::find_if(figures, [&](const auto& one) { return scope_in_name(one.name) == scope; });
    };
    const auto total = figures.size() == 1 ? figures.begin() : of(Scope::trial);
    const auto scopes =
        std::ranges::count_if(figures, [](const auto& one) { return scope_in_name(one.name).has_value(); });
    const auto totals = std::ranges::count_if(
        figures, [](const auto& one) { return scope_in_name(one.name) == Scope::trial; });
    if (figures.size() > 1 && (total == figures.end() || totals > 1 || scopes < std::ssize(figures))) {
      std::vector<std::string> names;
      for (const auto& one : figures) {
        names.push_back(fmt::format("{} = {}", excerpt(one.name), one.value));
      }
      lines_.refuse(
          "{} has several throughputs ({}), and their names do not say which is of the whole job: take "
          "the others out, or give the one that counts as a CSV table with a column images_per_second",
          excerpt(run_.test), join(names, ", "));
    }
    TrainingFigure figure{
        total->value, run_.test, total->name, {}, {{"source", "reframe"}, {"metric", total->name}}};
    figure.scope = scope_in_name(total->name);
    figure.nodes = run_.nodes;
    figure.gpus_per_node = run_.gpus_per_node;
    figure.tasks = run_.tasks;
    figure.environment.update(run_.facts);
    auto record = trial_of(figure, settings_, lines_);
    for (const auto& one : figures) { check_part(one, *total, record); }
    if (record["started_at"].is_null()) { record["started_at"] = value_json(run_.completed_at); }
    importer_.add(record, total->position);
  }

  /// The throughput of one device, times their number, is that of the job.
  void check_part(const ReframeThroughput& part, const ReframeThroughput& total, const json& record) const {
    if (&part == &total || scope_in_name(part.name) != Scope::rank) { return; }
    const auto devices =
        settings_.ranks.value_or(record["nodes"].get<std::int64_t>() *
                                 std::max<std::int64_t>(record["gpus_per_node"].get<std::int64_t>(), 1));
    if (!is_part(part.value, total.value, devices)) {
      lines_.refuse("{} is {} and {} is {}, which are not {}: correct --nodes, --gpus-per-node or --ranks",
                    excerpt(part.name), part.value, excerpt(total.name), total.value,
                    counted(devices, "device"));
    }
  }

  void add(const std::string& name, const std::string& text, const std::string& unit) {
    const auto& run = run_;
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
      throughputs_.push_back({name, lines_.position(), *value});
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
  ReframeRun run_;
  std::vector<ReframeThroughput> throughputs_;  ///< of that run
  std::vector<OpenRun> open_runs_;              ///< of files with a line for each variable
  std::int64_t failed_rows_ = 0;                ///< with figures
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
