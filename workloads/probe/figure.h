#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::probe {

/// One figure of a micro-benchmark: the fields of the exchange record "probe" (docs/formats.md) that the
/// program itself knows; experiment and arm come from whoever started it.
struct Figure {
  std::string name = {};       ///< all_reduce, triad, gemm, …
  std::string where = "CPU";   ///< for the table: "GPU 0", "GPU 0->1 direct"; records have it in `detail`
  std::string node = {};       ///< host name, where it concerns one
  std::string transport = {};  ///< as the flag said
  std::string data_type = {};  ///< float, double, bfloat16
  int nodes = 1;
  int ranks = 1;
  std::optional<std::uint64_t> size_bytes = {};
  double seconds = 0;     ///< of one operation
  double value = 0;       ///< the figure itself; of a collective, its algorithm bandwidth
  std::string unit = {};  ///< B/s, FLOP/s, s
  std::optional<double> bus_bytes_per_second = {};
  std::int64_t wrong = 0;  ///< elements that were not what they should be, on all ranks together
  nlohmann::json detail = nlohmann::json::object();
};

/// Its fields as the record "probe" names them; what is not known is null.
nlohmann::json to_json(const Figure& figure);

/// Lines for people, of figures that are no collectives.
class Table {
 public:
  /// A line for each, below a heading where they are the first or need wider columns than those before.
  std::string lines(const std::vector<Figure>& figures);

 private:
  std::size_t name_width_ = 0;  ///< of the heading before; 0: none
  std::size_t where_width_ = 0;
};

/// Does an operation so many times, back to back, and says how many seconds all of them took.
using RunTimes = std::function<double(int times)>;

/// Seconds of one operation, after some tenths of a second of it: the best of all repetitions but the first,
/// each of as many operations as fill some 20 ms. Its start and its end, 10 to 15 us and more in a VM, are
/// then less than a thousandth of it; of a millisecond they would be as much as what virtualization costs.
double best_seconds(int repetitions, const RunTimes& run);

}  // namespace virtrain::probe
