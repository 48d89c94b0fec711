#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "results/report/data/report_data.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// Meaning of a colour, a dash or a shape of a chart.
struct KeyEntry {
  std::string mark;  ///< class of page/report.css that draws it: "arm-0", "published", "ideal", "level-3", …
  std::string words;
};

/// A figure of the report: a Vega specification, the values that go into it, and all that readers
/// without the picture get.
struct Chart {
  std::string id;            ///< unique in the page
  std::string spec;          ///< specifications/<spec>.vg.json
  std::string section = {};  ///< of the page, where its specification does not tell
  std::string title;         ///< says what is seen
  std::string summary;       ///< the text alternative: the message in one or two sentences
  nlohmann::json data = nlohmann::json::object();     ///< rows for each data set that the specification names
  nlohmann::json signals = nlohmann::json::object();  ///< values of its signals
  nlohmann::json scales = nlohmann::json::object();  ///< types of its scales that are not the specification's
  std::vector<KeyEntry> key = {};
  Table table = {};  ///< the values behind the marks
  bool zoom = false;
};

/// Arms in the order of their colours: baseline, candidate, the others as they come.
class ArmOrder {
 public:
  explicit ArmOrder(const ReportData& data);
  /// 0 … 5; beyond six arms the last colour repeats.
  int style(const std::string& arm) const;
  const std::vector<std::string>& arms() const { return arms_; }

 private:
  std::vector<std::string> arms_;
};

/// "bare metal", "VM, unpinned": an arm's name as people read it.
std::string arm_words(const std::string& arm);
/// The comparison with its arms' names as people read them.
CaseComparison in_words(CaseComparison comparison);
/// The key entry of an arm.
KeyEntry arm_key(const ArmOrder& order, const std::string& arm);
/// Adds the entry to the chart's key unless one of the same words is there.
void add_key(Chart& chart, const KeyEntry& entry);
/// So many significant digits, for the page's weight; full precision is in the tables and the database.
double rounded(double value, int significant_digits = 7);

/// Sets the axis of throughput of a chart with the signals `values` and `value_title` and the scale `v`: room
/// for what lies between, logarithmic where needs_logarithm(), and then it says so.
void set_value_axis(Chart& chart, double low, double high, const std::string& unit);

/// Whether values from `low` to `high` need a logarithmic axis: on a linear one the small ones would be one
/// line at the bottom.
bool needs_logarithm(double low, double high);

}  // namespace virtrain::results
