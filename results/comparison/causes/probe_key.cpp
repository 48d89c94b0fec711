#include "results/comparison/causes/probe_key.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) { sum += value; }
  return sum / static_cast<double>(values.size());
}

/// One figure of both sides, over the sizes that both measured.
struct SharedFigure {
  ProbeKey key;  ///< without its size
  bool is_bus = false;
  double baseline = 0, candidate = 0;
  double sizes = 0;
};

/// Mean of a side at a key: the bus bandwidth where it has one.
double reading_of(const ProbeReadings& readings) {
  return mean_of(readings.bus.empty() ? readings.values : readings.bus);
}

std::vector<SharedFigure> shared_figures(const ProbeFigures& figures) {
  std::map<ProbeKey, SharedFigure> shared;
  for (const auto& [key, sides] : figures) {
    const auto ours = sides.find("baseline"), theirs = sides.find("candidate");
    if (ours == sides.end() || theirs == sides.end()) { continue; }
    if (ours->second.bus.empty() != theirs->second.bus.empty()) { continue; }
    auto without_size = key;
    without_size.size_bytes = -1;
    auto& figure = shared[without_size];
    figure.key = without_size;
    figure.is_bus = !ours->second.bus.empty();
    const double baseline = reading_of(ours->second), candidate = reading_of(theirs->second);
    if (figure.is_bus) {
      figure.baseline = std::max(figure.baseline, baseline);
      figure.candidate = std::max(figure.candidate, candidate);
    } else {
      figure.baseline += baseline;
      figure.candidate += candidate;
      figure.sizes += 1;
    }
  }
  std::vector<SharedFigure> list;
  for (auto& [key, figure] : shared) {
    if (!figure.is_bus) {
      figure.baseline /= figure.sizes;
      figure.candidate /= figure.sizes;
    }
    if (figure.baseline > 0 && figure.candidate > 0) { list.push_back(figure); }
  }
  return list;
}

/// Whether the second says more of a gap than the first: of collectives the one of more ranks, as the job
/// has, then the faster one; of rates the one whose sides differ more.
bool is_better(const SharedFigure& first, const SharedFigure& second) {
  if (first.is_bus && second.is_bus) {
    return std::pair(second.key.ranks, second.baseline) > std::pair(first.key.ranks, first.baseline);
  }
  return second.candidate / second.baseline < first.candidate / first.baseline;
}

/// With "baseline" or "candidate" in place of the arm, and without figures of wrong data.
void add_side(const std::vector<const Probe*>& probes, const char* side, std::vector<Probe>& all) {
  for (const auto* probe : probes) {
    if (probe->wrong.value_or(0) > 0) { continue; }
    all.push_back(*probe);
    all.back().arm = side;
  }
}

}  // namespace

ProbeKey key_of(const Probe& probe) {
  ProbeKey key{probe.name,
               probe.data_type,
               side_of(probe),
               probe.unit,
               probe.nodes.value_or(-1),
               probe.ranks.value_or(-1),
               probe.size_bytes.value_or(-1)};
  key.settings = settings_of(probe);
  return key;
}

std::string settings_words(const ProbeSettings& settings) {
  constexpr std::size_t longest_word = 40;
  // Whose values say by themselves what they are.
  static const std::set<std::string, std::less<>> plain = {"engine", "part",   "run",       "benchmark",
                                                           "test",   "system", "partition", "environ"};
  std::vector<std::string> words;
  for (const auto& [name, value] : settings) {
    std::string word = plain.contains(name) ? "" : name + "=";
    words.push_back(excerpt(word.append(value), longest_word));
  }
  return join(words, " ");
}

ProbeFigures probe_figures(const std::vector<Probe>& probes) {
  using OfArms = std::map<std::string, std::set<std::string>>;
  std::map<ProbeKey, OfArms> transports, devices;
  std::vector<ProbeKey> keys;
  keys.reserve(probes.size());
  for (const auto& probe : probes) {
    keys.push_back(key_of(probe));
    transports[keys.back()][probe.arm].insert(probe.transport);
    devices[keys.back()][probe.arm].insert(text_in(probe.detail, "device"));
  }
  // Arms differ in the transport and the device that they bring along; that of several in one arm was chosen.
  const auto is_chosen = [](const OfArms& arms) {
    return std::ranges::any_of(arms, [](const auto& arm) { return arm.second.size() > 1; });
  };
  ProbeFigures figures;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto& probe = probes[i];
    auto key = keys[i];
    if (is_chosen(transports.at(keys[i]))) { key.transport = probe.transport; }
    const auto device = text_in(probe.detail, "device");
    if (!device.empty() && is_chosen(devices.at(keys[i]))) { key.settings["device"] = device; }
    auto& readings = figures[key][probe.arm];
    readings.values.push_back(probe.value);
    if (probe.bus_bytes_per_second) { readings.bus.push_back(*probe.bus_bytes_per_second); }
    readings.wrong += probe.wrong.value_or(0);
    if (probe.run) { readings.runs.push_back(*probe.run); }
  }
  return figures;
}

SharedProbes shared_probes(const std::vector<const Probe*>& baseline,
                           const std::vector<const Probe*>& candidate) {
  std::vector<Probe> all;
  add_side(baseline, "baseline", all);
  add_side(candidate, "candidate", all);
  std::map<std::string, SharedFigure> best;
  for (const auto& figure : shared_figures(probe_figures(all))) {
    const auto& key = figure.key;
    std::vector<std::string> names{"probe." + key.name};
    const bool is_product = key.name == "gemm" || key.name == "gpu_gemm";
    if (is_product && !key.data_type.empty()) { names.push_back(names.front() + "." + key.data_type); }
    for (const auto& name : names) {
      const auto [known, fresh] = best.try_emplace(name, figure);
      if (!fresh && is_better(known->second, figure)) { known->second = figure; }
    }
  }
  SharedProbes shared;
  for (const auto& [name, figure] : best) {
    shared.baseline[name] = figure.baseline;
    shared.candidate[name] = figure.candidate;
    shared.units[name] = figure.is_bus ? "B/s" : figure.key.unit;
    const auto words = settings_words(figure.key.settings);
    if (!words.empty()) { shared.settings[name] = words; }
  }
  return shared;
}

}  // namespace virtrain::results
