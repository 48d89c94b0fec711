#include "harness/evidence/gpu_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

using Facts = std::map<std::string, std::string>;
using Text = std::optional<std::string>;
using Number = std::optional<double>;

constexpr std::size_t most_text_bytes = 200;
/// Reasons to throttle that explain a lower clock. The power cap is among them: it makes no trial invalid,
/// for a GPU under load may always run into it, but an arm that does so more often is slower for that.
constexpr std::array slowdown_reasons{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
                                      "sw_thermal_slowdown", "sw_power_cap"};

/// Passes on a text that is short and printable as it is.
Text plain(const Text& said) {
  const bool fits = said && !said->empty() && said->size() <= most_text_bytes;
  if (!fits || said->find_first_of("\t\n") != std::string::npos || printable(*said) != *said) {
    return std::nullopt;
  }
  return said;
}

/// A number in words, as "300 W" by "{:g} W"; a zero is what a library says that does not know.
Text in_words(const Number& value, const char* format) {
  if (!value || *value == 0) { return std::nullopt; }
  return fmt::format(fmt::runtime(format), *value);
}

Text flag(const std::optional<bool>& value, const char* yes, const char* no) {
  if (!value) { return std::nullopt; }
  return *value ? yes : no;
}

void put(Facts& facts, const char* name, const Text& value) {
  if (value) { facts[name] = *value; }
}

void put_card(Facts& facts, const protocol::GpuRecord& gpu) {
  const Text virtualization = plain(gpu.virtualization);
  put(facts, "gpu_name", plain(gpu.name));
  put(facts, "gpu_virtualization", virtualization);
  if (virtualization != "vgpu") {
    put(facts, "gpu_uuid", plain(gpu.uuid));
    put(facts, "vbios", plain(gpu.vbios));
  }
  put(facts, "driver", plain(gpu.driver));
  put(facts, "power_limit", in_words(gpu.power_limit_w, "{:g} W"));
  put(facts, "clocks", in_words(gpu.application_clock_mhz, "{:g} MHz"));
  put(facts, "ecc", flag(gpu.ecc_enabled, "on", "off"));
  put(facts, "mig", flag(gpu.mig_enabled, "on", "off"));
  put(facts, "gpu_licensed", flag(gpu.licensed, "yes", "no"));
  put(facts, "gpu_pcie_generation", in_words(gpu.best_pcie_generation, "{:g}"));
  put(facts, "gpu_pcie_width", in_words(gpu.best_pcie_width, "x{:g}"));
}

Facts facts_of(const RankState& rank) {
  Facts facts;
  if (rank.hello) {
    const auto& hello = *rank.hello;
    put(facts, "gpu_name", plain(hello.device));
    if (hello.gpu) { put_card(facts, *hello.gpu); }
    if (const auto version = hello.cuda_runtime) {
      facts["cuda"] = fmt::format("{}.{}", *version / 1000, *version % 1000 / 10);
    }
    put(facts, "cudnn", plain(hello.cudnn));
    put(facts, "nccl", plain(hello.nccl));
    put(facts, "trainer_build", plain(hello.build));
  }
  if (rank.ready) {
    put(facts, "fusion", plain(rank.ready->fusion));
    put(facts, "repeatable", flag(rank.ready->repeatable, "yes", "no"));
  }
  return facts;
}

/// One figure over the ranks that tell it.
struct Figure {
  double sum = 0;
  int ranks = 0;

  void add(const Number& value) {
    sum += value.value_or(0);
    ranks += value ? 1 : 0;
  }
  Number total() const { return ranks > 0 ? Number(sum) : std::nullopt; }
  Number mean() const { return ranks > 0 ? Number(sum / ranks) : std::nullopt; }
};

/// The largest share of the time that one of the slowdowns was on (they come together, so no sum of them).
/// Absent where the GPU does not tell its reasons, 0 where it had none.
Number slowdown_share(const protocol::GpuDuring& during) {
  if (!during.throttled) { return std::nullopt; }
  double most = 0;
  for (const char* reason : slowdown_reasons) {
    if (const auto found = during.throttled->find(reason); found != during.throttled->end()) {
      most = std::max(most, found->second);
    }
  }
  return std::min(most, 1.0);
}

Number mean_of(const std::optional<protocol::GpuCourse>& course) {
  return course ? course->mean : std::nullopt;
}

/// Which GPU a rank has, so that what two ranks say of the same one is not added.
std::string gpu_of(const RankState& rank, std::size_t position) {
  const Text address = rank.hello ? plain(rank.hello->pci_address) : std::nullopt;
  return address.value_or(fmt::format("of rank {}", position));
}

/// When the last of the ranks' samples ended.
std::optional<std::int64_t> end_of_samples(const std::vector<const RankState*>& ranks) {
  std::optional<std::int64_t> end;
  for (const auto* rank : ranks) {
    if (!rank->samples.empty()) { end = std::max(end.value_or(INT64_MIN), rank->samples.back().t_ns); }
  }
  return end;
}

/// Images per joule of a node: an energy belongs to a GPU, images to a rank.
Number per_joule(const Figure& images, const Figure& joules) {
  if (images.ranks == 0 || !(joules.sum > 0)) { return std::nullopt; }
  return images.sum / joules.sum;
}

}  // namespace

std::map<std::string, std::string> gpu_facts(const std::vector<const RankState*>& ranks) {
  std::map<std::string, std::set<std::string>> said;
  for (const auto* rank : ranks) {
    for (const auto& [name, value] : facts_of(*rank)) { said[name].insert(value); }
  }
  Facts facts;
  for (const auto& [name, values] : said) { facts[name] = join({values.begin(), values.end()}, ", "); }
  return facts;
}

std::vector<results::Telemetry> gpu_telemetry(const std::vector<const RankState*>& ranks) {
  const auto end_ns = end_of_samples(ranks);
  if (!end_ns) { return {}; }
  Figure clock, temperature, slowdowns, power, joules, images;
  std::set<std::string> seen;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const protocol::Result none;
    const auto& result = ranks[r]->result ? *ranks[r]->result : none;
    const auto during = (result.gpu ? result.gpu->during : std::nullopt).value_or(protocol::GpuDuring{});
    clock.add(mean_of(during.sm_clock_mhz));
    temperature.add(mean_of(during.temperature_c));
    slowdowns.add(slowdown_share(during));
    const Number energy = during.energy_j;
    if (energy) { images.add(result.images); }
    if (!seen.insert(gpu_of(*ranks[r], r)).second) { continue; }
    power.add(mean_of(during.power_w));
    joules.add(energy);
  }
  std::vector<results::Telemetry> readings;
  const auto read = [&](const char* metric, const Number& value) {
    if (value) { readings.push_back({*end_ns, "guest", metric, *value}); }
  };
  read("gpu_sm_clock_mhz", clock.mean());
  read("gpu_power_watts", power.total());
  read("gpu_temperature_celsius", temperature.mean());
  read("gpu_throttle_share", slowdowns.mean());
  read("gpu_images_per_joule", per_joule(images, joules));
  return readings;
}

}  // namespace virtrain::harness
