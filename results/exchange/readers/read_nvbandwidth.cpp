// The formats are those of NVIDIA/nvbandwidth: --json of json_output.cpp, and the text of output.cpp. Their
// GB are 10^9 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/rank_tag.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Engine that copies, by the end of a test's name; tests without one of these keep their names.
constexpr std::array<std::pair<std::string_view, const char*>, 3> engines = {
    {{"_ce", "copy engine"}, {"_sm", "SM"}, {"_tma", "TMA"}}};
/// Contents of a matrix of a test that prints several, by the words in front of its unit.
constexpr std::array<std::string_view, 5> parts = {"Read1", "Read2", "Write1", "Write2", "Total"};

std::string copy_name(const std::string& test) {
  if (test.starts_with("host_to_device_memcpy")) { return "host_to_device"; }
  if (test.starts_with("device_to_host_memcpy")) { return "device_to_host"; }
  return test;
}

/// "Read1" of "memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)"; empty if it names no part.
std::string_view part_in(std::string_view description) {
  const auto words = words_of(description);
  const auto found = std::ranges::find_first_of(parts, words);
  return found == parts.end() ? std::string_view() : *found;
}

/// Where a figure of a test stands.
struct Place {
  double figure = 0;
  std::size_t row = 0, column = 0;
};

class NvbandwidthReader {
 public:
  NvbandwidthReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read_json() {
    const auto whole = read_document(lines_);
    const auto& document = member(whole, "nvbandwidth");
    const auto& tests = member(document, "testcases");
    if (!tests.is_array()) { lines_.refuse("nvbandwidth without a list \"testcases\""); }
    driver_ = text_in(document, "Driver Version");
    version_ = text_in(document, "version");
    for (const auto& test : tests) { read_test(test); }
    finish();
  }

  void read_text() {
    while (lines_.next()) { read_line(without_rank_tag(lines_.line())); }
    finish_test();
    finish();
  }

 private:
  void read_test(const json& test) {
    test_ = text_in(test, "name");
    description_ = text_in(test, "bandwidth_description");
    const auto& matrix = member(test, "bandwidth_matrix");
    if (test_.empty()) { lines_.refuse("a test case without a name"); }
    if (text_in(test, "status") != "Passed" || !matrix.is_array()) {
      left_out_.add(fmt::format("{}: {}", test_, text_in(test, "status")));
      return;
    }
    for (std::size_t row = 0; row < matrix.size(); ++row) {
      if (!matrix[row].is_array()) { lines_.refuse("{}: a row that is not a list", excerpt(test_)); }
      const auto part = part_of_row(row, matrix);
      for (std::size_t column = 0; column < matrix[row].size(); ++column) {
        // "N/A": a device and itself.
        if (const auto figure = number_of(matrix[row][column])) { add({*figure, row, column}, part); }
      }
    }
  }

  /// The JSON has all matrices of a test in one, one below the other, and describes the last of them: of a
  /// test that ends with a total, the first is of one direction, the second of the other.
  std::string_view part_of_row(std::size_t row, const json& matrix) const {
    const auto last = part_in(description_);
    if (last != "Total") { return last; }
    if (matrix.size() % 3 != 0) {
      lines_.refuse("{}: {} rows, which are not one matrix for each direction and one for their total",
                    excerpt(test_), matrix.size());
    }
    const bool writes = test_.find("write") != std::string::npos;
    const auto of_one = matrix.size() / 3;
    return row / of_one == 0   ? (writes ? "Write1" : "Read1")
           : row / of_one == 1 ? (writes ? "Write2" : "Read2")
                               : last;
  }

  void read_line(std::string_view line) {
    const auto words = words_of(line);
    const auto value_behind = [&](std::string_view label) {
      return line.starts_with(label) ? std::string(trim(line.substr(label.size()))) : std::string();
    };
    if (auto said = value_behind("Driver Version:"); !said.empty()) { driver_ = said; }
    if (auto said = value_behind("nvbandwidth Version:"); !said.empty()) { version_ = said; }
    if (words.empty()) {
      in_matrix_ = false;
    } else if (words[0] == "Running" && words.size() == 2) {
      finish_test();
      test_ = words[1].substr(0, words[1].size() - (words[1].ends_with('.') ? 1 : 0));
    } else if (words[0] == "Waived:" || words[0] == "ERROR:" || words[0] == "[ERROR]") {
      left_out_.add(trim(line));
    } else if (line.find("(row)") != line.npos || line.find("(GB/s)") != line.npos ||
               line.find("(ns)") != line.npos) {
      finish_matrix();
      description_ = line;
      in_matrix_ = true;
    } else if (words[0] == "SUM" && words.size() == 3) {
      has_sum_ = true;
    } else if (in_matrix_) {
      read_row(words);
    }
  }

  /// The first line of a matrix numbers its columns, the others begin with their row's number.
  void read_row(const std::vector<std::string_view>& words) {
    if (columns_ == 0) {
      columns_ = words.size();
      return;
    }
    if (words.size() != columns_ + 1) {
      lines_.refuse("a row of {} with {} where the matrix has {}", excerpt(test_),
                    counted(words.size() - 1, "figure"), columns_);
    }
    for (std::size_t column = 0; column < columns_; ++column) {
      const auto text = words[column + 1];
      const auto figure = parse_number(text);
      if (!figure && text != "N/A") {
        lines_.refuse("a figure of {} is \"{}\"", excerpt(test_), excerpt(text));
      }
      if (figure) { add({*figure, row_, column}, part_in(description_)); }
    }
    ++row_;
  }

  /// Below each matrix stands its sum.
  void finish_matrix() {
    if (row_ > 0 && !has_sum_) {
      lines_.refuse(
          "a matrix of {} ends without its line \"SUM {}\": the run did not finish, get a fresh copy",
          excerpt(test_), excerpt(test_));
    }
    has_sum_ = in_matrix_ = false;
    row_ = columns_ = 0;
  }

  void finish_test() {
    finish_matrix();
    test_.clear();
    description_.clear();
  }

  void add(const Place& place, std::string_view part) {
    const bool is_latency =
        description_.find("(ns)") != std::string::npos || test_.find("latency") != std::string::npos;
    auto probe = record_of(settings_, lines_);
    probe.update({{"record", "probe"}, {"name", copy_name(test_)}, {"unit", is_latency ? "s" : "B/s"}});
    probe["value"] = place.figure * (is_latency ? 1e-9 : bytes_per_gigabyte);
    probe["nodes"] = value_json(settings_.nodes);
    probe["measured_at"] = value_json(settings_.started_at);
    auto& detail = probe["detail"];
    detail = {{"source", "nvbandwidth"}, {"test", test_}, {"row", place.row}, {"column", place.column}};
    detail["settings"] = json::object();
    for (const auto& [ending, engine] : engines) {
      if (test_.ends_with(ending)) { detail["settings"]["engine"] = engine; }
    }
    if (!part.empty()) { detail["settings"]["part"] = part; }
    if (!driver_.empty()) { detail["driver"] = driver_; }
    if (!version_.empty()) { detail["version"] = version_; }
    importer_.add(probe, lines_.position());
  }

  void finish() {
    if (importer_.report().probes == 0) { lines_.refuse("no test case of it passed"); }
    left_out_.report(importer_);
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  LeftOut left_out_;
  std::string driver_, version_;
  std::string test_, description_;
  bool in_matrix_ = false, has_sum_ = false;  ///< of the text
  std::size_t columns_ = 0, row_ = 0;         ///< likewise
};

}  // namespace

void read_nvbandwidth(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  const bool has_json = is_json(lines);
  NvbandwidthReader reader(lines, settings, importer);
  has_json ? reader.read_json() : reader.read_text();
}

}  // namespace virtrain::results
