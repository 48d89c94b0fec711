#include "harness/plan/devices/device_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "common/contains.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

using Slots = std::vector<const DeviceSlot*>;
using InCommon = bool (*)(const DeviceSlot&, const DeviceSlot&);

bool of_one_card(const DeviceSlot& a, const DeviceSlot& b) {
  return a.card == b.card;
}

bool nvlinked(const DeviceSlot& a, const DeviceSlot& b) {
  return contains(a.device.nvlink_peers, b.card);
}

/// Below the same root port, that is a switch or one card's functions; not only the same root complex.
bool share_a_switch(const DeviceSlot& a, const DeviceSlot& b) {
  const auto& [x, y] = std::tie(a.device.bridges, b.device.bridges);
  return !x.empty() && !y.empty() && x.front() == y.front();
}

bool share_a_complex(const DeviceSlot& a, const DeviceSlot& b) {
  return !a.device.root_complex.empty() && a.device.root_complex == b.device.root_complex;
}

bool share_a_numa_node(const DeviceSlot& a, const DeviceSlot& b) {
  return a.device.numa_node >= 0 && a.device.numa_node == b.device.numa_node;
}

/// What the firmware names no node of counts as of one.
bool are_on_one_numa_node(const DeviceSlot& a, const DeviceSlot& b) {
  return a.device.numa_node == b.device.numa_node;
}

InCommon in_common_by(Share share) {
  switch (share) {
    case Share::card:
      return of_one_card;
    case Share::switch_:
      return share_a_switch;
    case Share::core:
    case Share::llc:
    case Share::node:
      return are_on_one_numa_node;
    case Share::host:
      break;
  }
  return [](const DeviceSlot&, const DeviceSlot&) { return true; };
}

/// Pairs of a set for which the relation holds.
template <typename Relation>
std::size_t pairs(const Slots& slots, Relation&& holds) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    for (std::size_t k = i + 1; k < slots.size(); ++k) { count += holds(*slots[i], *slots[k]) ? 1U : 0U; }
  }
  return count;
}

auto nearness(const Slots& slots) {
  return std::tuple(pairs(slots, of_one_card), pairs(slots, nvlinked), pairs(slots, share_a_switch),
                    pairs(slots, share_a_numa_node));
}

/// `set` with more of `from`, which has enough, each as near to the others as can be.
Slots grown(Slots set, const Slots& from, std::size_t count) {
  while (set.size() < count) {
    Slots next;
    for (const auto* slot : from) {
      if (contains(set, slot)) { continue; }
      auto wider = set;
      wider.push_back(slot);
      if (next.empty() || nearness(wider) > nearness(next)) { next = std::move(wider); }
    }
    set = std::move(next);
  }
  std::sort(set.begin(), set.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  return set;
}

/// The nearest set of `count` that grows from one slot; of equally near ones the first.
Slots nearest_set(const Slots& from, std::size_t count) {
  Slots best;
  for (const auto* seed : from) {
    auto set = grown({seed}, from, count);
    if (best.empty() || nearness(set) > nearness(best)) { best = std::move(set); }
  }
  return best;
}

/// Slots that have that in common, in their order.
std::vector<Slots> classes_of(const Slots& slots, InCommon shares) {
  std::vector<Slots> classes;
  for (const auto* slot : slots) {
    const auto same = std::find_if(classes.begin(), classes.end(),
                                   [&](const Slots& one) { return shares(*one.front(), *slot); });
    if (same == classes.end()) {
      classes.push_back({slot});
    } else {
      same->push_back(slot);
    }
  }
  return classes;
}

std::vector<int> numa_nodes_of(const Slots& slots) {
  std::set<int> nodes;
  for (const auto* slot : slots) {
    if (slot->device.numa_node >= 0) { nodes.insert(slot->device.numa_node); }
  }
  return {nodes.begin(), nodes.end()};
}

/// "on NUMA node 0"; `known`: those that the firmware names.
std::string numa_words(const Slots& slots, const std::vector<int>& known) {
  if (known.empty()) { return "on a NUMA node that the firmware does not name"; }
  if (known.size() > 1) { return "on several NUMA nodes"; }
  const bool all_known =
      std::all_of(slots.begin(), slots.end(), [](const auto* slot) { return slot->device.numa_node >= 0; });
  return fmt::format("on NUMA node {}{}", known[0],
                     all_known ? "" : " and one that the firmware does not name");
}

DeviceChoice describe(const Slots& slots) {
  DeviceChoice choice;
  if (slots.empty()) { return choice; }
  for (const auto* slot : slots) { choice.slots.push_back(*slot); }
  choice.numa_nodes = numa_nodes_of(slots);
  const std::size_t all = slots.size() * (slots.size() - 1) / 2;
  choice.joined_by_nvlink = pairs(slots, nvlinked) == all;
  std::vector<std::string> reasons;
  const bool one_card = all > 0 && pairs(slots, of_one_card) == all;
  if (one_card) { reasons.emplace_back("of one card"); }
  if (all > 0 && choice.joined_by_nvlink) { reasons.emplace_back("joined by NVLink"); }
  if (!one_card && all > 0 && pairs(slots, share_a_switch) == all) {
    reasons.emplace_back("below one PCIe switch");
  }
  reasons.push_back(numa_words(slots, choice.numa_nodes));
  choice.reason = join(reasons, ", ");
  return choice;
}

/// How near, and in words; larger is nearer.
std::pair<int, const char*> distance(const DeviceSlot& nic, const DeviceSlot& device) {
  if (share_a_switch(nic, device)) { return {3, "below the same PCIe switch as"}; }
  if (share_a_complex(nic, device)) { return {2, "below the same root complex as"}; }
  if (share_a_numa_node(nic, device)) { return {1, "on the NUMA node of"}; }
  return {0, "far from"};
}

}  // namespace

Slots DeviceAllocator::left_of(const Offer& offer) const {
  const auto clashes = [](const DeviceSlot& slot, const DeviceSlot& taken) {
    return slot.id == taken.id || (slot.iommu_group && slot.iommu_group == taken.iommu_group) ||
           (slot.is_time_sliced() && taken.is_time_sliced() && of_one_card(slot, taken) &&
            slot.device.vgpu_name != taken.device.vgpu_name);
  };
  Slots left;
  for (const auto& slot : offer.slots) {
    if (std::none_of(taken_.begin(), taken_.end(), [&](const auto& taken) { return clashes(slot, taken); })) {
      left.push_back(&slot);
    }
  }
  return left;
}

/// `chosen`: those that the node gets beside it.
const DeviceSlot* DeviceAllocator::best_single(const Slots& from, const Slots& chosen) const {
  const auto count = [&](auto&& relation, const DeviceSlot* slot) {
    return std::ranges::count_if(taken_, [&](const auto& taken) { return relation(*slot, taken); }) +
           std::ranges::count_if(chosen, [&](const auto* one) { return relation(*slot, *one); });
  };
  const auto cost = [&](const DeviceSlot* slot) {
    const auto on_card = count(of_one_card, slot);
    return std::pair(spread_ ? on_card : -on_card, count(share_a_numa_node, slot));
  };
  return *std::min_element(from.begin(), from.end(),
                           [&](const auto* a, const auto* b) { return cost(a) < cost(b); });
}

Slots DeviceAllocator::spread_set(Slots from, std::size_t count) const {
  Slots chosen;
  while (chosen.size() < count && !from.empty()) {
    chosen.push_back(best_single(from, chosen));
    std::erase(from, chosen.back());
  }
  return chosen;
}

Slots DeviceAllocator::nearest(const Slots& from, std::size_t count) const {
  if (spread_) { return spread_set(from, count); }
  return count == 1 ? Slots{best_single(from, {})} : nearest_set(from, count);
}

DeviceChoice DeviceAllocator::take(const Offer& offer, std::size_t count) {
  const auto left = left_of(offer);
  count = std::min(count, left.size());
  if (count == 0) { return {}; }
  auto choice = describe(nearest(left, count));
  keep(choice);
  return choice;
}

/// What a victim may get, the best first: as if it were alone, then of one class, then, of cards and
/// switches, some of each of the largest classes. Where those leave no room for others, no set does.
std::vector<Slots> DeviceAllocator::victim_sets(const Slots& left, const Sharing& sharing) const {
  const auto count = sharing.count;
  if (left.size() < count) { return {}; }
  std::vector<Slots> sets{nearest(left, count)};
  auto classes = classes_of(left, in_common_by(sharing.share));
  for (const auto& one : classes) {
    if (one.size() >= count) { sets.push_back(nearest(one, count)); }
  }
  if (is_of_numa_node(sharing.share)) { return sets; }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const Slots& a, const Slots& b) { return a.size() > b.size(); });
  Slots seed, from;
  for (std::size_t i = 0; i < std::min(count, classes.size()); ++i) {
    seed.push_back(classes[i].front());
    from.insert(from.end(), classes[i].begin(), classes[i].end());
    if (from.size() >= count) { sets.push_back(grown(seed, from, count)); }
  }
  return sets;
}

/// The victim's, and what shares with it for as many nodes as there is left for.
std::vector<DeviceChoice> DeviceAllocator::take_beside(const Slots& victim, const Offer& offer,
                                                       const Sharing& sharing) {
  const auto shares = in_common_by(sharing.share);
  std::vector<DeviceChoice> choices{describe(victim)};
  keep(choices[0]);
  while (choices.size() <= sharing.nodes) {
    auto left = left_of(offer);
    std::erase_if(left, [&](const auto* slot) {
      return std::none_of(victim.begin(), victim.end(), [&](const auto* one) { return shares(*slot, *one); });
    });
    if (left.size() < victim.size()) { break; }
    choices.push_back(describe(nearest(left, victim.size())));
    keep(choices.back());
  }
  return choices;
}

std::vector<DeviceChoice> DeviceAllocator::take_sharing(const Offer& offer, const Sharing& sharing) {
  for (const auto& victim : victim_sets(left_of(offer), sharing)) {
    auto trial = *this;
    auto choices = trial.take_beside(victim, offer, sharing);
    if (choices.size() <= sharing.nodes) { continue; }
    *this = std::move(trial);
    return choices;
  }
  return {};
}

DeviceChoice DeviceAllocator::take_nics(const Offer& offer, std::size_t count,
                                        const std::vector<DeviceSlot>& near) {
  auto left = left_of(offer);
  DeviceChoice choice;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < count && !left.empty(); ++i) {
    if (near.empty()) {
      choice.slots.push_back(*left.front());
      left.erase(left.begin());
      continue;
    }
    const auto& device = near[i % near.size()];
    // A port that is up goes before one that is as near and down.
    const auto worth = [&](const DeviceSlot* slot) {
      return std::pair(distance(*slot, device).first, slot->is_ready);
    };
    const auto best = std::max_element(left.begin(), left.end(),
                                       [&](const auto* a, const auto* b) { return worth(a) < worth(b); });
    reasons.push_back(fmt::format("NIC {} {} {}{}", (*best)->device.grant.address,
                                  distance(**best, device).second, device.device.grant.address,
                                  (*best)->is_ready ? "" : " with no port up"));
    choice.slots.push_back(**best);
    left.erase(best);
  }
  choice.reason = join(reasons, ", ");
  keep(choice);
  return choice;
}

void DeviceAllocator::keep(const DeviceChoice& choice) {
  taken_.insert(taken_.end(), choice.slots.begin(), choice.slots.end());
}

}  // namespace virtrain::harness
