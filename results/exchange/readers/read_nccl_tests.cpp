// The formats are those of NVIDIA/nccl-tests -J, src/util.cu, and of ROCm/rccl-tests -Z json, src/common.cu;
// their GB are 10^9 bytes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/rank_tag.h"
#include "results/exchange/readers/readers.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

// Helpers that the readers of nccl-tests' table and of its JSON share.

/// Where the ranks of one test ran. NCCL_TESTS_SPLIT parts them into groups that run at the same time, each
/// by itself: the figures are then those of a collective among the ranks of the first.
class NcclRanks {
 public:
  /// `rank` is its number; nothing where the source does not say it of each.
  void add(const std::string& host, const std::string& group, std::optional<std::int64_t> rank,
           std::int64_t ranks);
  /// Sets the probe's ranks, nodes and node; the settings say what was not listed.
  void complete(nlohmann::json& probe, const ImportSettings& settings) const;
  /// Refuses --ranks and --nodes that say something else.
  void refuse_other(const ImportSettings& settings, const LineReader& lines) const;
  /// How many ranks the figures are of, where that is known and one group did it all.
  std::optional<std::int64_t> of_figures(const ImportSettings& settings) const;
  /// The first number below the highest that no rank has; nothing if all are there.
  std::optional<std::int64_t> missing() const;
  /// Ranks that were listed, of all groups.
  std::int64_t listed() const { return std::ssize(numbers_); }

 private:
  std::string group_;  ///< the first
  std::set<std::string> groups_;
  std::set<std::string> hosts_, group_hosts_;
  std::set<std::int64_t> numbers_;
  std::int64_t ranks_ = 0;  ///< of the first group
};

/// Two bandwidths of a row, each with half a unit of the last digit that was printed.
struct BandwidthPair {
  double algorithm = 0, bus = 0;
  double algorithm_give = 0, bus_give = 0;
};

// The format is that of NVIDIA/nccl-tests, src/util.cu (earlier src/common.cu): writeBenchmarkLinePreamble()
// and writeBenchmarkLineBody() print the lines, their GB are 10^9 bytes.

using nlohmann::json;

/// Names of nccl-tests, which SuperBench and others write in one word.
constexpr std::array collectives = {"all_reduce", "all_gather", "reduce_scatter", "alltoallv",
                                    "alltoall",   "broadcast",  "hypercube",      "sendrecv",
                                    "scatter",    "gather",     "reduce"};
/// Beyond it not every whole number is a double.
constexpr double most_wrong = 9e15;
/// Limits of one file; a sweep has dozens of rows, and a line for each of the job's GPUs.
constexpr std::int64_t most_rows = 100'000, most_ranks = 100'000;
constexpr std::size_t side_words = 4;  ///< time, algbw, busbw, #wrong: out of place, then in place

std::string in_one_word(std::string name) {
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return name;
}

std::string words_from(const std::vector<std::string_view>& words, std::size_t first) {
  return join({words.begin() + static_cast<std::ptrdiff_t>(first), words.end()}, " ");
}

/// How operations are launched, where that is not one by one: {"agg_iters": 8, "graph": 10}.
json launch_settings(std::optional<std::int64_t> aggregated, std::optional<std::int64_t> graph) {
  json settings = json::object();
  if (aggregated.value_or(1) != 1) { settings["agg_iters"] = *aggregated; }
  if (graph.value_or(0) != 0) { settings["graph"] = *graph; }
  return settings;
}

void NcclRanks::add(const std::string& host, const std::string& group, std::optional<std::int64_t> rank,
                    std::int64_t ranks) {
  if (rank) { numbers_.insert(*rank); }
  if (groups_.empty()) { group_ = group; }
  groups_.insert(group);
  if (!host.empty()) { hosts_.insert(host); }
  if (group != group_) { return; }
  ranks_ += ranks;
  if (!host.empty()) { group_hosts_.insert(host); }
}

void NcclRanks::complete(json& probe, const ImportSettings& settings) const {
  probe["nodes"] = group_hosts_.empty() ? value_json(settings.nodes) : json(group_hosts_.size());
  probe["ranks"] = ranks_ == 0 ? value_json(settings.ranks) : json(ranks_);
  if (hosts_.size() == 1) { probe["node"] = *hosts_.begin(); }
  if (groups_.size() > 1) { probe["detail"]["groups"] = groups_.size(); }
}

void NcclRanks::refuse_other(const ImportSettings& settings, const LineReader& lines) const {
  if (settings.ranks && ranks_ > 0 && *settings.ranks != ranks_ && *settings.ranks != listed()) {
    lines.refuse("the output lists {}, and --ranks says {}; leave --ranks out", counted(ranks_, "rank"),
                 *settings.ranks);
  }
  const auto hosts = std::ssize(group_hosts_);
  if (settings.nodes && hosts > 0 && *settings.nodes != hosts && *settings.nodes != std::ssize(hosts_)) {
    lines.refuse("the output's ranks are on {}, and --nodes says {}; leave --nodes out",
                 counted(hosts, "host"), *settings.nodes);
  }
}

std::optional<std::int64_t> NcclRanks::of_figures(const ImportSettings& settings) const {
  if (groups_.size() > 1) { return std::nullopt; }
  return ranks_ == 0 ? settings.ranks : std::optional(ranks_);
}

std::optional<std::int64_t> NcclRanks::missing() const {
  std::int64_t expected = 0;
  for (const auto number : numbers_) {
    if (number != expected) { return expected; }
    ++expected;
  }
  return std::nullopt;
}

/// Why a collective's bus and algorithm bandwidth cannot be of that many ranks (nccl-tests' PERFORMANCE.md);
/// empty if they can, or the collective's factor does not depend on the ranks.
std::string contradiction(const std::string& collective, const BandwidthPair& row, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  static const std::set<std::string, std::less<>> spread = {"all_gather", "reduce_scatter", "alltoall",
                                                            "alltoallv",  "gather",         "scatter"};
  std::vector<double> factors;
  if (collective == "all_reduce") { factors = {2 * (n - 1) / n}; }
  // Until 2020 all_gather and reduce_scatter counted what one rank sends.
  if (spread.contains(collective)) { factors = {(n - 1) / n, n - 1}; }
  const double least = row.algorithm - row.algorithm_give;
  if (factors.empty() || !(least > 0)) { return ""; }
  const double low = std::max(row.bus - row.bus_give, 0.0) / (row.algorithm + row.algorithm_give);
  const double high = (row.bus + row.bus_give) / least;
  constexpr double give = 0.005;  // of a ratio: the program divides before it rounds
  const auto fits = [&](double factor) { return factor >= low * (1 - give) && factor <= high * (1 + give); };
  if (std::ranges::any_of(factors, fits)) { return ""; }
  const double ratio = row.bus / row.algorithm;
  const double of_one = collective == "all_reduce" ? ratio / 2 : ratio;
  const auto said =
      of_one < 1 ? fmt::format(", which is that of {:.0f} ranks", std::round(1 / (1 - of_one))) : "";
  return fmt::format("busbw / algbw is {:.4g}{}, and {} of {} has {:.4g}", ratio, said, collective,
                     counted(ranks, "rank"), factors.front());
}

/// The collective that the program measures, by its name; --collective if that says nothing. Refuses two that
/// differ.
std::string nccl_collective(const std::string& program, const ImportSettings& settings,
                            const LineReader& lines) {
  auto name = collective_in_name(program);
  if (name.empty()) { return settings.collective; }
  if (!settings.collective.empty() && name != settings.collective) {
    lines.refuse("this is the output of {}, not of {}; leave --collective out", name, settings.collective);
  }
  return name;
}

class NcclTestsReader {
 public:
  NcclTestsReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {
    collective_ = settings.collective.empty()
                      ? collective_in_name(std::filesystem::path(lines.name()).filename().string())
                      : settings.collective;
  }

  void read() {
    while (lines_.next()) { read_line(without_rank_tag(lines_.line())); }
    if (!concluded_) { refuse_disguised(lines_); }
    finish_test();
    lost_ += torn_.empty() ? 0 : 1;
    if (rows_ == 0) { lines_.refuse("there are no lines of figures in it"); }
    if (messages_ > 0) { importer_.note(message_note()); }
    if (unmarked_ > 0) {
      importer_.note(counted(unmarked_, "comment was", "comments were") +
                     " read although the '#' in front is missing");
    }
  }

 private:
  std::string message_note() const {
    const auto torn = joined_ + lost_ == 0
                          ? ""
                          : fmt::format("; of the rows they tore apart {} put together, {} left out",
                                        counted(joined_, "was", "were"), counted(lost_, "was", "were"));
    return fmt::format("{} skipped{}",
                       counted(messages_, "line of NCCL_DEBUG was", "lines of NCCL_DEBUG were"), torn);
  }

  /// One file may hold the outputs of several tests, one after the other.
  void finish_test() {
    if (!concluded_) {
      lines_.refuse("the output ends without \"# Avg bus bandwidth\": the test did not finish");
    }
    check_ranks();
    device_.clear();
    launch_ = json::object();
    ranks_ = {};
    listed_of_test_.clear();
    concluded_ = false;
    below_header_ = false;
    has_rows_ = false;
    says_wrong_ = false;
    in_milliseconds_ = false;
  }

  /// Each of the ranks has a line.
  void check_ranks() const {
    ranks_.refuse_other(settings_, lines_);
    if (const auto missing = ranks_.missing()) {
      lines_.refuse(
          "rank {} is not listed, of {} that are: its line is damaged or lost; get a fresh copy of the "
          "output",
          *missing, ranks_.listed());
    }
  }

  /// A line that begins as a comment of nccl-tests does, but for the '#': the first versions left it out of
  /// their first and last lines, and a merged or cut output loses it.
  static bool lost_its_mark(const std::vector<std::string_view>& words) {
    const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string_view(); };
    const bool is_rank =
        word(0) == "Rank" && parse_integer(word(1)) && std::ranges::count(words, "device") > 0;
    const bool is_header =
        (word(0) == "size" && word(1) == "count") || (word(0) == "bytes" && word(1) == "N");
    return is_rank || is_header || (word(0) == "nThread" && word(2) == "nGpus") ||
           (word(0) == "Collective" && word(1) == "test") ||
           (word(0) == "Out" && word(1) == "of" && word(2) == "bounds") ||
           (word(0) == "Avg" && word(1) == "bus" && word(2) == "bandwidth");
  }

  void read_line(std::string_view line) {
    auto words = words_of(line);
    if (words.empty()) { return; }
    if (lost_its_mark(words)) {
      words.insert(words.begin(), "#");
      ++unmarked_;
    }
    if (is_message(line)) { return read_message(words); }
    // Behind the conclusion it only says that data was wrong, or less than NCCL_TESTS_MIN_BW was reached.
    const bool failed = !concluded_ && line.find("Test failure") != line.npos;
    if (failed || line.find("Test NCCL failure") != line.npos ||
        line.find("Test CUDA failure") != line.npos) {
      lines_.refuse("the test failed: " + excerpt(line));
    }
    if (words[0] == "#") {
      read_comment(words);
    } else if (!torn_.empty() && words.size() == 2 * side_words && parse_number(words[0])) {
      std::vector<std::string_view> whole(torn_.begin(), torn_.end());
      whole.insert(whole.end(), words.begin(), words.end());
      read_figures(whole);
      torn_.clear();
      ++joined_;
    } else if (words.size() > 1 && parse_integer(words[0]) && parse_integer(words[1])) {
      read_figures(words);
    } else if (below_header_ && !concluded_ && looks_like_row(words)) {
      lines_.refuse(
          "a damaged row: \"{}\" (size, count, type, redop, root, and twice time, algbw, busbw, #wrong were "
          "expected)",
          excerpt(line));
    }
  }

  /// Whether it begins as a row does, or has as many figures; what else is printed there has words.
  static bool looks_like_row(const std::vector<std::string_view>& words) {
    const auto numbers =
        std::ranges::count_if(words, [](auto word) { return parse_number(word).has_value(); });
    return is_digit(words[0].front()) || (words.size() >= 2 * side_words && 2 * numbers >= std::ssize(words));
  }

  /// "node-a:4711:4711 [0] NCCL INFO Launch mode Group", which NCCL_DEBUG prints among the rows.
  static bool is_message(std::string_view line) {
    return line.find("] NCCL INFO ") != line.npos || line.find("] NCCL WARN ") != line.npos;
  }

  /// A message may come in the middle of a row: "8 2 float sum -1node-a:4711:4711 [0] NCCL INFO …", and the
  /// row's figures on a line of their own behind it.
  void read_message(const std::vector<std::string_view>& words) {
    ++messages_;
    if (words.size() < 5 || !parse_integer(words[0]) || !parse_integer(words[1])) { return; }
    lost_ += torn_.empty() ? 0 : 1;
    torn_.assign(words.begin(), words.begin() + 4);
    // Where a root's digits end and a host's name begins cannot be told: only "-1", no root, is sure.
    if (words[4].starts_with("-1")) { torn_.emplace_back("-1"); }
  }

  void read_comment(const std::vector<std::string_view>& words) {
    const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string_view(); };
    const bool is_start = word(1) == "Collective" && word(2) == "test" && word(3) == "starting:";
    if ((is_start || word(1) == "nThread") && has_rows_) { finish_test(); }
    if (word(1) == "nThread") { read_settings(words); }
    if (is_start) {
      const auto name = nccl_collective(std::string(word(4)), settings_, lines_);
      if (!name.empty()) { collective_ = name; }
    } else if (const auto rank = parse_integer(word(2)); rank && word(1) == "Rank") {
      read_rank(*rank, words);
    } else if ((word(1) == "size" && word(2) == "count") || (word(1) == "bytes" && word(2) == "N")) {
      in_milliseconds_ = word(1) == "bytes";  // as the first versions, whose header is this
      counts_wrong_ = lines_.line().find("#wrong") != std::string_view::npos;
      below_header_ = true;
    } else if (word(1) == "Out" && word(2) == "of" && words.back() == "FAILED") {
      check_failure(lines_.line());
    } else if (word(1) == "Avg" && word(2) == "bus" && word(3) == "bandwidth") {
      concluded_ = true;
    }
  }

  /// "… agg iters: 8 … graph: 10" of the first line: figures of several operations in a launch, or of a
  /// captured graph, are others than those of one by one, "agg iters: 1" and "graph: 0".
  void read_settings(const std::vector<std::string_view>& words) {
    std::optional<std::int64_t> aggregated, graph;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i] == "graph:") { graph = parse_integer(words[i + 1]); }
      if (words[i] == "iters:" && words[i - 1] == "agg") { aggregated = parse_integer(words[i + 1]); }
    }
    launch_ = launch_settings(aggregated, graph);
  }

  /// "# Rank 0 Group 0 Pid 1 on HOST device 0 [0000:07:00] NVIDIA A100", the group only of newer versions.
  /// Processes without MPI are jobs of their own, each with a rank 0: their lines, mixed, look like one job.
  void read_rank(std::int64_t rank, const std::vector<std::string_view>& words) {
    std::string host;
    for (std::size_t i = 2; i + 1 < words.size(); ++i) {
      if (words[i] == "on") { host = words[i + 1]; }
      if (words[i].starts_with('[') && device_.empty()) { device_ = words_from(words, i + 1); }
    }
    if (++listed_ > most_ranks) { lines_.refuse("more than {} lines of ranks", most_ranks); }
    const bool has_group = words.size() > 4 && words[3] == "Group";
    const std::string group(has_group ? words[4] : std::string_view());
    if (!listed_of_test_.emplace(group, rank).second) {
      lines_.refuse(
          "rank {} is listed twice: the processes ran separate tests (nccl-tests built without MPI=1?); "
          "build it with MPI=1, or give the output of each process as a file of its own",
          rank);
    }
    ranks_.add(host, group, rank, 1);
  }

  /// The rows must say which data was wrong; where NCCL_DEBUG spoiled some it may have been theirs, and
  /// before 2.13 no row says it.
  void check_failure(std::string_view line) {
    if (says_wrong_) { return; }
    if (counts_wrong_ && lost_ == 0 && torn_.empty()) {
      lines_.refuse("\"{}\", and no row has a #wrong above 0: the table is damaged, get a fresh copy",
                    excerpt(trim(line)));
    }
    importer_.note(excerpt(trim(line)));
  }

  /// size count type [redop] [root], then time algbw busbw #wrong twice.
  void read_figures(std::vector<std::string_view> words) {
    if (words.size() > 2 && words.back().find(':') != std::string_view::npos &&
        words[words.size() - 2].find('-') != std::string_view::npos) {
      words.resize(words.size() - 2);  // "2026-11-20 08:00:00", of -S
    }
    constexpr std::size_t least = 3 + 2 * side_words, most = least + 2;
    if (words.size() < least || words.size() > most) {
      lines_.refuse(
          "{} where a line of figures has {} to {} (size, count, type, redop, root, and "
          "twice time, algbw, busbw, #wrong; per-iteration columns are not read)",
          counted(words.size(), "word"), least, most);
    }
    const auto sides = words.size() - 2 * side_words;
    if (++rows_ > most_rows) { lines_.refuse("more than {} rows (split the file)", most_rows); }
    has_rows_ = true;
    json probe = {{"size_bytes", whole(words[0], "size")}, {"data_type", words[2]}};
    probe["detail"] = {{"count", whole(words[1], "count")}};
    if (sides > 3) { probe["detail"]["operation"] = words[3]; }
    if (sides > 4) { probe["detail"]["root"] = whole(words[4], "root"); }
    for (const bool in_place : {false, true}) {
      const auto* side = &words[sides + (in_place ? side_words : 0)];
      if (side[0] == "N/A") {
        continue;  // this collective has no such side
      }
      add(side_of(probe, side, in_place));
    }
  }

  json side_of(json probe, const std::string_view* words, bool in_place) {
    const double time = number(words[0], "time");
    const double factor = in_milliseconds_ ? 1e3 * seconds_per_microsecond : seconds_per_microsecond;
    if (time > 0) { probe["seconds"] = time * factor; }
    const double algorithm = number(words[1], "algbw"), bus = number(words[2], "busbw");
    probe["value"] = algorithm * bytes_per_gigabyte;
    probe["bus_bytes_per_second"] = bus * bytes_per_gigabyte;
    const auto ranks = ranks_.of_figures(settings_);
    const auto odd =
        ranks ? contradiction(collective_, {algorithm, bus, give_of(words[1]), give_of(words[2])}, *ranks)
              : "";
    if (!odd.empty()) {
      lines_.refuse("{}: {}", odd,
                    ranks_.listed() > 0
                        ? "a rank's line is damaged or lost (get a fresh copy of the output), or it measured "
                          "something else (its file's name, --collective)"
                        : "give the number of ranks with --ranks");
    }
    if (words[3] != "N/A") {
      const double wrong = number(words[3], "#wrong");
      // Until nccl-tests 2.13 this column was the largest error of an element.
      if (counts_wrong_) {
        if (wrong > most_wrong) { lines_.refuse("#wrong is {}, which is not a count of elements", words[3]); }
        probe["wrong"] = static_cast<std::int64_t>(wrong);
        says_wrong_ = says_wrong_ || wrong > 0;
      } else {
        probe["detail"]["largest_error"] = wrong;
      }
    }
    probe["detail"]["in_place"] = in_place;
    return probe;
  }

  void add(json probe) {
    if (collective_.empty()) {
      lines_.refuse(
          "neither the output nor the file's name says which collective this is: give --collective, or name "
          "the file after it, for example all_reduce_perf.txt");
    }
    probe.update(record_of(settings_, lines_));
    probe["record"] = "probe";
    probe["name"] = collective_;
    probe["unit"] = "B/s";
    probe["measured_at"] = value_json(settings_.started_at);
    ranks_.complete(probe, settings_);
    if (!device_.empty()) { probe["detail"]["device"] = device_; }
    probe["detail"]["source"] = "nccl-tests";
    if (!launch_.empty()) { probe["detail"]["settings"] = launch_; }
    importer_.add(probe, lines_.position());
  }

  /// Half a unit of the last digit that was printed.
  static double give_of(std::string_view word) {
    const auto point = word.find('.');
    const auto digits = point == word.npos ? 0 : word.size() - point - 1;
    return 0.5 * std::pow(10.0, -static_cast<double>(digits));
  }

  std::int64_t whole(std::string_view word, const char* column) const {
    const auto value = parse_integer(word);
    if (!value) { lines_.refuse("{} is \"{}\", which is not a whole number", column, excerpt(word)); }
    return *value;
  }
  double number(std::string_view word, const char* column) const {
    const auto value = parse_number(word);
    if (!value || *value < 0) {
      lines_.refuse("{} is \"{}\", which is not a finite number of zero or more", column, excerpt(word));
    }
    return *value;
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::string collective_;
  std::string device_;
  json launch_ = json::object();  ///< how operations are launched, where that is not one by one
  NcclRanks ranks_;
  std::set<std::pair<std::string, std::int64_t>> listed_of_test_;  ///< group and rank, of the present test
  bool counts_wrong_ = true;
  bool below_header_ = false, concluded_ = false;
  bool has_rows_ = false, says_wrong_ = false;  ///< of the present test
  bool in_milliseconds_ = false;                ///< likewise
  std::vector<std::string> torn_;               ///< the start of a row whose figures have not come yet
  std::int64_t messages_ = 0, joined_ = 0, lost_ = 0;
  std::int64_t rows_ = 0, listed_ = 0;
  std::int64_t unmarked_ = 0;  ///< comments without their '#'
};

/// Half a unit of the last digit that both programs print.
constexpr double bandwidth_give = 0.005;

/// Values that all rows of one file share.
json nccl_base(const json& document, const std::string& collective, const ImportSettings& settings,
               const LineReader& lines) {
  json base = record_of(settings, lines);
  base.update({{"record", "probe"}, {"name", collective}, {"unit", "B/s"}});
  base["measured_at"] = value_json(settings.started_at);
  base["detail"] = {{"source", "nccl-tests"}};
  const auto& config = member(document, "config");
  const auto& devices = member(config, "devices");
  const auto threads = number_of(member(config, "nthreads")), gpus = number_of(member(config, "ngpus"));
  constexpr double most = 1e6;
  const auto count = [&](const char* key) {
    const auto& value = member(config, key);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  };
  if (const auto launch = launch_settings(count("agg_iters"), count("graph")); !launch.empty()) {
    base["detail"]["settings"] = launch;
  }
  const bool is_known = threads && gpus && *threads >= 1 && *gpus >= 1 && *threads * *gpus < most;
  NcclRanks ranks;
  if (devices.is_array() && !devices.empty()) {
    base["detail"]["device"] = text_in(devices[0], "device_info");
    for (const auto& device : devices) {
      // It lists the first device of each process alone.
      const auto of_process = is_known ? static_cast<std::int64_t>(*threads * *gpus) : 0;
      const auto& rank = member(device, "rank");
      const bool is_only = of_process == 1 && rank.is_number_integer();
      ranks.add(text_in(device, "hostname"), member(device, "group").dump(),
                is_only ? std::optional(rank.get<std::int64_t>()) : std::nullopt, of_process);
    }
  }
  ranks.refuse_other(settings, lines);
  if (const auto missing = ranks.missing()) {
    lines.refuse("rank {} is not listed, of {} that are: the file is damaged, get a fresh copy", *missing,
                 ranks.listed());
  }
  ranks.complete(base, settings);
  base["ranks_of_figures"] = value_json(ranks.of_figures(settings));
  return base;
}

/// One side of a row, "out_of_place" or "in_place".
void add_nccl_side(const json& row, const char* key, json probe, const LineReader& lines,
                   RecordImporter& importer) {
  const auto& side = member(row, key);
  if (side.is_null()) { return; }
  const auto need = [&](const char* name) {
    const auto value = number_of(member(side, name));
    if (!value || *value < 0) {
      lines.refuse("a row's {} has no {} that is a number of zero or more", key, name);
    }
    return *value;
  };
  const double microseconds = need(side.is_object() && side.contains("cpu_time") ? "cpu_time" : "time");
  if (microseconds > 0) { probe["seconds"] = microseconds * seconds_per_microsecond; }
  probe["value"] = need("alg_bw") * bytes_per_gigabyte;
  probe["bus_bytes_per_second"] = need("bus_bw") * bytes_per_gigabyte;
  constexpr double most_wrong_elements = 9e15;
  if (!member(side, "nwrong").is_null()) {
    const double wrong = need("nwrong");
    if (wrong > most_wrong_elements) { lines.refuse("nwrong is not a count of elements"); }
    probe["wrong"] = static_cast<std::int64_t>(wrong);
  }
  probe["detail"]["in_place"] = std::string_view(key) == "in_place";
  const auto ranks = probe["ranks_of_figures"];
  probe.erase("ranks_of_figures");
  if (ranks.is_number()) {
    const auto odd =
        contradiction(probe["name"], {need("alg_bw"), need("bus_bw"), bandwidth_give, bandwidth_give},
                      ranks.get<std::int64_t>());
    if (!odd.empty()) { lines.refuse("{}: a rank is missing, or --ranks is another number", odd); }
  }
  importer.add(probe, lines.position());
}

/// One row of rccl-tests, of one side of one size.
void add_rccl_row(const json& row, const ImportSettings& settings, const LineReader& lines,
                  RecordImporter& importer) {
  const auto need = [&](const char* name) {
    const auto value = number_of(member(row, name));
    if (!value || *value < 0) { lines.refuse("a row has no {} that is a number of zero or more", name); }
    return *value;
  };
  const auto count = [&](const char* name) {
    const auto& value = member(row, name);
    constexpr std::int64_t most = std::int64_t{1} << 62;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{most}) {
      lines.refuse("a row has no {} that is a whole number", name);
    }
    return value.get<std::int64_t>();
  };
  const auto collective = nccl_collective(text_in(row, "name"), settings, lines);
  if (collective.empty()) {
    lines.refuse("\"{}\" names no collective: give --collective", excerpt(text_in(row, "name")));
  }
  auto probe = record_of(settings, lines);
  probe.update({{"record", "probe"}, {"name", collective}, {"unit", "B/s"}});
  const auto ranks = count("ranks"), nodes = count("nodes");
  if (ranks < 1 || nodes < 1) { lines.refuse("a row of {} ranks on {} nodes", ranks, nodes); }
  const auto refuse_other = [&](const char* option, const std::optional<std::int64_t>& said,
                                std::int64_t here) {
    if (said && *said != here) {
      lines.refuse("the file says {}, and {} says {}; leave {} out", here, option, *said, option);
    }
  };
  refuse_other("--ranks", settings.ranks, ranks);
  refuse_other("--nodes", settings.nodes, nodes);
  const double algorithm = need("algBw"), bus = need("busBw");
  const auto odd = contradiction(collective, {algorithm, bus, bandwidth_give, bandwidth_give}, ranks);
  if (!odd.empty()) { lines.refuse("{}: the file is damaged, get a fresh copy", odd); }
  probe["ranks"] = ranks;
  probe["nodes"] = nodes;
  probe["size_bytes"] = count("size");
  probe["data_type"] = value_json(text_in(row, "type"));
  if (const double time = need("time"); time > 0) { probe["seconds"] = time * seconds_per_microsecond; }
  probe["value"] = algorithm * bytes_per_gigabyte;
  probe["bus_bytes_per_second"] = bus * bytes_per_gigabyte;
  if (text_in(row, "wrong") != "N/A" && !member(row, "wrong").is_null()) {
    constexpr double most_wrong_elements = 9e15;
    const double wrong = need("wrong");
    if (wrong > most_wrong_elements) { lines.refuse("wrong is not a count of elements"); }
    probe["wrong"] = static_cast<std::int64_t>(wrong);
  }
  probe["measured_at"] = value_json(settings.started_at);
  probe["detail"] = {
      {"source", "rccl-tests"}, {"in_place", need("inPlace") > 0}, {"operation", text_in(row, "redop")}};
  importer.add(probe, lines.position());
}

/// nvidia's nccl-tests -J: a JSON document.
void read_nccl_json(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  const auto document = read_document(lines);
  const auto& rows = member(document, "results");
  if (!rows.is_array()) {
    lines.refuse("nccl-tests JSON without its list \"results\": the test did not finish");
  }
  // Until 2.17.8 its key was misspelt.
  if (member(document, "average_bus_bandwidth").is_null() &&
      member(document, "average_bus_bandwidith").is_null()) {
    lines.refuse("there is no average_bus_bandwidth: the test did not finish");
  }
  const auto& arguments = member(document, "args");
  const bool has_program = arguments.is_array() && !arguments.empty() && arguments[0].is_string();
  const auto program = has_program ? arguments[0].get<std::string>() : "";
  const auto collective = nccl_collective(program.substr(program.find_last_of("/\\") + 1), settings, lines);
  if (collective.empty()) { lines.refuse("\"args\" names no collective: give --collective"); }
  const auto base = nccl_base(document, collective, settings, lines);
  for (const auto& row : rows) {
    auto probe = base;
    const auto& size = member(row, "size");
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{1} << 62) {
      lines.refuse("a row without a size that is a whole number");
    }
    probe["size_bytes"] = size;
    probe["data_type"] = value_json(text_in(row, "type"));
    if (const auto& count = member(row, "count"); count.is_number_unsigned()) {
      probe["detail"]["count"] = count;
    }
    probe["detail"]["operation"] = text_in(row, "redop");
    if (const auto root = parse_integer(trim(text_in(row, "root")))) { probe["detail"]["root"] = *root; }
    add_nccl_side(row, "out_of_place", probe, lines, importer);
    add_nccl_side(row, "in_place", probe, lines, importer);
  }
  if (importer.report().probes == 0) { lines.refuse("there are no rows in \"results\""); }
}

/// AMD's rccl-tests -Z json: a list of rows.
void read_rccl_json(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  bool is_list = false;
  while (lines.next() && trim(lines.line()).empty()) {}
  is_list = trim(lines.line()).starts_with('[');
  lines.rewind();
  if (is_list) {
    for (const auto& row : read_document(lines)) { add_rccl_row(row, settings, lines, importer); }
  } else {
    while (lines.next()) {
      if (!trim(lines.line()).empty()) { add_rccl_row(parse_record(lines), settings, lines, importer); }
    }
  }
  if (importer.report().probes == 0) { lines.refuse("there are no rows in the list"); }
}

}  // namespace

std::string collective_in_name(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : lower(name)) {
    if (is_letter(c)) { words.back() += c; }
    if (!is_letter(c) && !words.back().empty()) { words.emplace_back(); }
  }
  std::set<std::string> found;
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string joined;
    std::size_t end = first;  // behind the longest that begins here
    std::string longest;
    for (std::size_t i = first; i < std::min(first + 3, words.size()); ++i) {
      joined += words[i];
      for (const char* collective : collectives) {
        if (in_one_word(collective) != joined) { continue; }
        longest = collective;
        end = i;
      }
    }
    if (!longest.empty()) { found.insert(longest); }
    first = end;
  }
  return found.size() == 1 ? *found.begin() : "";
}

std::vector<std::string> collective_names() {
  return {collectives.begin(), collectives.end()};
}

void read_nccl_tests(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  const bool has_line = lines.next();
  const std::string start(has_line ? trim(without_rank_tag(lines.line())).substr(0, 1) : std::string_view());
  const bool is_row = has_line && lines.line().find("\"numCycle\"") != std::string_view::npos;
  lines.rewind();
  if (start == "[" || is_row) { return read_rccl_json(lines, settings, importer); }
  if (start == "{") { return read_nccl_json(lines, settings, importer); }
  NcclTestsReader(lines, settings, importer).read();
}
}  // namespace virtrain::results
