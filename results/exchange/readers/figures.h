#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "results/exchange/readers/readers.h"

namespace virtrain::results {

// Helpers that readers of other tools' JSON and logs share. All of them are strict: a text that is recognised
// and lacks what is needed is refused with its place.

/// A finite number, as a number or as text; nothing otherwise.
std::optional<double> number_of(const nlohmann::json& value);

/// "2024-02-21T22:51:16.746Z" of seconds since 1970; empty where they are no moment of our time.
std::string time_at(std::optional<double> seconds);

/// A training throughput of which the file says little else.
struct TrainingFigure {
  double images_per_second = 0;
  std::string case_name = {};             ///< what the file suggests
  std::string what = "the throughput";    ///< for messages
  std::optional<std::int64_t> gpus = {};  ///< of the whole job, where the file says it
  nlohmann::json environment = nlohmann::json::object();
  std::optional<Scope> scope = {};                 ///< whose throughput it is, where the file says it
  std::optional<std::int64_t> batch_size = {};     ///< of a rank, likewise
  std::optional<std::int64_t> nodes = {};          ///< likewise
  std::optional<std::int64_t> gpus_per_node = {};  ///< likewise
  std::optional<std::int64_t> tasks = {};  ///< processes of the whole job: one for each GPU or each node
};

/// Whose a throughput is, by what it is called: of one device ("throughput_per_gpu") or of all ("Total
/// throughput"); nothing if it does not say.
std::optional<Scope> scope_in_name(const std::string& name);

/// Whether the throughput of one device, times their number, is that of the job.
bool is_part(double part, double total, std::int64_t devices);

/// The trial of the figure. Asks for case, nodes, GPUs of a node, and, above one GPU, for its scope.
nlohmann::json trial_of(const TrainingFigure& figure, const ImportSettings& settings,
                        const LineReader& lines);

/// Most cells of one row of a table: a line of 16 MiB could hold millions.
inline constexpr std::size_t most_cells = 10'000;

/// Readers of logs leave out the last line where a log broke off: its figures may be the starts of longer
/// ones.
inline constexpr std::string_view torn_line = "the last line, which breaks off without a line end";

/// Things that a reader had to leave out, by name; in the end one note.
class LeftOut {
 public:
  void add(std::string_view name);
  void report(RecordImporter& importer) const;

 private:
  std::map<std::string, std::int64_t> names_;
  std::int64_t count_ = 0;
};

/// "lscpu in no unit", of a figure that is left out for its unit.
std::string in_unit(std::string_view name, std::string_view unit);

/// Bytes (or seconds) of one of a unit that throughput of a probe comes in: "GB/s", "MB/s", "GiB/s", "us".
struct ProbeUnit {
  const char* unit;
  double factor;
};
std::optional<ProbeUnit> probe_unit_of(std::string_view unit);
/// Whether it is a unit of images a second: "images/sec", "img/s", ….
bool is_images_per_second(std::string_view unit);

}  // namespace virtrain::results
