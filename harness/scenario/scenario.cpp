#include "harness/scenario/scenario.h"

#include <algorithm>

#include "common/contains.h"
#include "common/text/scanner.h"
#include "common/text/text.h"

namespace virtrain::harness {

bool is_pci_address(const std::string& text) {
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  Scanner in(text);
  return !in.take_while(is_hex, 4, 4).empty() && in.take(":") && !in.take_while(is_hex, 2, 2).empty() &&
         in.take(":") && (in.take("0") || in.take("1")) && !in.take_while(is_hex, 1, 1).empty() &&
         in.take(".") && !in.take_while([](char c) { return c >= '0' && c <= '7'; }, 1, 1).empty() &&
         in.at_end();
}

bool is_vgpu_parent(const std::string& text) {
  constexpr std::size_t most_bytes = 64;
  const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-'; };
  const bool is_name = text.size() <= most_bytes && !text.empty() && is_letter(text[0]) &&
                       std::all_of(text.begin(), text.end(), is_part);
  return is_name || is_pci_address(text);
}

bool is_pci_vendor(const std::string& text) {
  Scanner in(text);
  return in.take("0x") && !in.take_while(is_hex_digit, 4, 4).empty() && in.at_end();
}

bool is_gpu_uuid(const std::string& text) {
  return text.starts_with("GPU-");
}

bool has_arm(const Scenario& scenario, const std::string& base) {
  return std::any_of(scenario.arms.begin(), scenario.arms.end(),
                     [&](const Arm& arm) { return arm.base == base; });
}

std::vector<AttachedMachine> attached_machines(const Scenario& scenario) {
  std::vector<AttachedMachine> all;
  for (const auto& arm : scenario.arms) {
    for (const auto& machine : arm.attached) { add_once(all, machine); }
  }
  return all;
}

bool is_all_attached(const Scenario& scenario) {
  return std::ranges::all_of(scenario.arms, [](const Arm& arm) { return !arm.attached.empty(); });
}

bool boots_mirrors_only(const Scenario& scenario) {
  const auto is_mirror = [](const Case& one) { return one.guest.is_mirror(); };
  return scenario.guest.is_mirror() &&
         std::all_of(scenario.arms.begin(), scenario.arms.end(), [&](const Arm& arm) {
           return std::all_of(arm.cases.begin(), arm.cases.end(), is_mirror);
         });
}

bool is_gpu_probe(const std::string& probe) {
  return contains(gpu_probes, probe);
}

bool is_rank_probe(const std::string& probe) {
  return contains(mpi_probes, probe) || contains(nccl_probes, probe);
}

ArmKey Neighbour::key() const {
  return is_idle() ? ArmKey{"", idle_neighbour, {}} : ArmKey{"", aggressor, level};
}

std::string Neighbour::condition() const {
  return printed_neighbour(key());
}

const std::vector<AggressorKind>& aggressor_kinds() {
  static const std::vector<AggressorKind> kinds{{"cpu", {"cpu"}},
                                                {"llc", {"llc"}},
                                                {"membw", {"membw"}},
                                                {"disk", {"disk"}},
                                                {"net", {"net"}},
                                                {"allreduce", {"allreduce"}},
                                                {"gemm", {"gemm"}, true},
                                                {"power", {"power"}, true},
                                                {"l2", {"l2"}, true},
                                                {"hbm", {"membw"}, true},
                                                {"h2d", {"h2d"}, true},
                                                {"d2h", {"d2h"}, true},
                                                {"h2d+d2h", {"h2d", "d2h"}, true}};
  return kinds;
}

const AggressorKind& aggressor_kind(const std::string& name) {
  return *std::find_if(aggressor_kinds().begin(), aggressor_kinds().end(),
                       [&](const AggressorKind& kind) { return kind.name == name; });
}

bool need_gpus(const std::vector<Neighbour>& neighbours) {
  return std::any_of(neighbours.begin(), neighbours.end(), [](const Neighbour& one) {
    return one.share == Share::card || one.share == Share::switch_ ||
           (!one.is_idle() && aggressor_kind(one.aggressor).needs_gpu);
  });
}

}  // namespace virtrain::harness
