#include "harness/plan/devices/device_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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

/// Devices for which the firmware names no node count as on one.
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

/// The slot with what shares its IOMMU group; nothing where `from` lacks some of that.
Slots with_companions(const DeviceSlot& slot, const Slots& from) {
  Slots group{&slot};
  for (const auto& id : slot.companions) {
    const auto found = std::ranges::find_if(from, [&](const auto* one) { return one->id == id; });
    if (found == from.end()) { return {}; }
    group.push_back(*found);
  }
  return group;
}

/// `set` with more of `from`, each with its IOMMU group and as near to the others as can be; nothing where
/// groups do not add up to `count`.
Slots grown(Slots set, const Slots& from, std::size_t count) {
  while (set.size() < count) {
    Slots next;
    for (const auto* slot : from) {
      if (contains(set, slot)) { continue; }
      const auto group = with_companions(*slot, from);
      if (group.empty() || set.size() + group.size() > count) { continue; }
      auto wider = set;
      wider.insert(wider.end(), group.begin(), group.end());
      if (next.empty() || nearness(wider) > nearness(next)) { next = std::move(wider); }
    }
    if (next.empty()) { return {}; }
    set = std::move(next);
  }
  std::sort(set.begin(), set.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  return set.size() == count ? set : Slots();
}

/// The nearest set of `count` that grows from one slot; of equally near ones the first.
Slots nearest_set(const Slots& from, std::size_t count) {
  Slots best;
  for (const auto* seed : from) {
    const auto group = with_companions(*seed, from);
    if (group.empty()) { continue; }
    auto set = grown(group, from, count);
    if (!set.empty() && (best.empty() || nearness(set) > nearness(best))) { best = std::move(set); }
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

/// Worth of an adapter to a device: a port that is up goes before one that is as near and down.
int worth(const DeviceSlot& nic, const DeviceSlot& device) {
  return 2 * distance(nic, device).first + (nic.is_ready ? 1 : 0);
}

const DeviceSlot& nearest_device(const DeviceSlot& nic, const std::vector<DeviceSlot>& devices) {
  return *std::ranges::max_element(
      devices, [&](const auto& a, const auto& b) { return worth(nic, a) < worth(nic, b); });
}

/// Worth of a node's adapters: first, over its devices, the worth of the best one to each; then, over the
/// adapters, the worth of each to the nearest device.
std::pair<int, int> worth_of(const Slots& nics, const std::vector<DeviceSlot>& devices) {
  std::pair<int, int> sum;
  for (const auto& device : devices) {
    int best = 0;
    for (const auto* nic : nics) { best = std::max(best, worth(*nic, device)); }
    sum.first += best;
  }
  for (const auto* nic : nics) {
    sum.second += devices.empty() ? 0 : worth(*nic, nearest_device(*nic, devices));
  }
  return sum;
}

std::pair<int, int> operator+(const std::pair<int, int>& a, const std::pair<int, int>& b) {
  return {a.first + b.first, a.second + b.second};
}

bool are_of_one_group(const DeviceSlot& a, const DeviceSlot& b) {
  return a.iommu_group && a.iommu_group == b.iommu_group;
}

/// Nodes with their adapters, and those that no node has.
class NicAssignment {
 public:
  NicAssignment(Slots left, const std::vector<std::vector<DeviceSlot>>& near)
      : left_(std::move(left)), near_(near), of_node_(near.size()) {}

  /// Each node takes its best ones, one after the other.
  void give(std::size_t count) {
    for (std::size_t node = 0; node < near_.size(); ++node) {
      while (of_node_[node].size() < count) {
        const auto best = best_for(node);
        if (!best) { return; }
        of_node_[node].push_back(*best);
        std::erase(left_, *best);
      }
    }
  }
  /// Exchanges two of two nodes, or one for one that is left, as long as all together gain.
  void improve() {
    while (exchange_once()) {}
  }
  const std::vector<Slots>& of_nodes() const { return of_node_; }

 private:
  /// A group goes to one node.
  bool may_have(std::size_t node, const DeviceSlot& nic) const {
    for (std::size_t other = 0; other < of_node_.size(); ++other) {
      if (other == node) { continue; }
      if (std::ranges::any_of(of_node_[other],
                              [&](const auto* one) { return are_of_one_group(*one, nic); })) {
        return false;
      }
    }
    return true;
  }

  std::optional<const DeviceSlot*> best_for(std::size_t node) const {
    std::optional<const DeviceSlot*> best;
    std::pair<int, int> most;
    for (const auto* nic : left_) {
      if (!may_have(node, *nic)) { continue; }
      auto wider = of_node_[node];
      wider.push_back(nic);
      const auto gained = worth_of(wider, near_[node]);
      if (best && gained <= most) { continue; }
      best = nic;
      most = gained;
    }
    return best;
  }

  bool exchange_once() {
    for (std::size_t node = 0; node < of_node_.size(); ++node) {
      for (auto& mine : of_node_[node]) {
        for (auto& free : left_) {
          if (gains(node, mine, node, free)) { return true; }
        }
        for (std::size_t other = node + 1; other < of_node_.size(); ++other) {
          for (auto& theirs : of_node_[other]) {
            if (gains(node, mine, other, theirs)) { return true; }
          }
        }
      }
    }
    return false;
  }

  /// Keeps the exchange where it gains. `other` is `node` for one that is left.
  bool gains(std::size_t node, const DeviceSlot*& mine, std::size_t other, const DeviceSlot*& theirs) {
    const auto sum = [&] {
      const auto own = worth_of(of_node_[node], near_[node]);
      return node == other ? own : own + worth_of(of_node_[other], near_[other]);
    };
    const auto before = sum();
    std::swap(mine, theirs);
    if (may_have(node, *mine) && (node == other || may_have(other, *theirs)) && sum() > before) {
      return true;
    }
    std::swap(mine, theirs);
    return false;
  }

  Slots left_;
  const std::vector<std::vector<DeviceSlot>>& near_;
  std::vector<Slots> of_node_;
};

DeviceChoice described_nics(Slots nics, const std::vector<DeviceSlot>& devices) {
  std::ranges::sort(nics, {}, [](const auto* nic) { return nic->id; });
  DeviceChoice choice;
  std::vector<std::string> reasons;
  for (const auto* nic : nics) {
    choice.slots.push_back(*nic);
    if (devices.empty()) { continue; }
    const auto& device = nearest_device(*nic, devices);
    reasons.push_back(fmt::format("NIC {} {} {}{}", nic->device.grant.address, distance(*nic, device).second,
                                  device.device.grant.address, nic->is_ready ? "" : " with no port up"));
  }
  choice.reason = join(reasons, ", ");
  return choice;
}

}  // namespace

/// Whether what is taken already excludes it.
bool DeviceAllocator::clashes(const DeviceSlot& slot) const {
  int slices = slot.mig_slices, gib = slot.mig_gib;
  for (const auto& taken : taken_) {
    if (slot.id == taken.id || are_of_one_group(slot, taken)) { return true; }
    if (!of_one_card(slot, taken)) { continue; }
    slices += taken.mig_slices;
    gib += taken.mig_gib;
    if (slot.is_time_sliced() && taken.is_time_sliced() && slot.device.vgpu_name != taken.device.vgpu_name) {
      return true;
    }
  }
  return (slot.card_slices > 0 && slices > slot.card_slices) || (slot.card_gib > 0 && gib > slot.card_gib);
}

Slots DeviceAllocator::left_of(const Offer& offer) const {
  Slots left;
  for (const auto& slot : offer.slots) {
    if (!clashes(slot)) { left.push_back(&slot); }
  }
  return left;
}

/// The first partition of `count` whose devices are all there; nothing where none is.
Slots DeviceAllocator::partition_of(const Slots& from, std::size_t count) const {
  for (const auto& partition : partitions_) {
    Slots set;
    for (const auto* slot : from) {
      if (contains(partition, slot->device.grant.address)) { set.push_back(slot); }
    }
    if (partition.size() == count && set.size() == count) { return set; }
  }
  return {};
}

/// `chosen`: those that the node gets beside it.
const DeviceSlot* DeviceAllocator::best_single(const Slots& from, const Slots& chosen) const {
  const auto count = [&](auto&& relation, const DeviceSlot* slot) {
    return std::ranges::count_if(taken_, [&](const auto& taken) { return relation(*slot, taken); }) +
           std::ranges::count_if(chosen, [&](const auto* one) { return relation(*slot, *one); });
  };
  const auto cost = [&](const DeviceSlot* slot) {
    const auto on_card = count(of_one_card, slot);
    return std::tuple(spread_ ? on_card : -on_card, count(share_a_numa_node, slot),
                      count(share_a_switch, slot));
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

/// Nothing where IOMMU groups do not add up to `count`.
Slots DeviceAllocator::nearest(const Slots& from, std::size_t count) const {
  if (auto partition = partition_of(from, count); !partition.empty()) { return partition; }
  if (spread_) { return spread_set(from, count); }
  if (count > 1) { return nearest_set(from, count); }
  auto single = from;
  std::erase_if(single, [](const auto* slot) { return !slot->companions.empty(); });
  return single.empty() ? Slots() : Slots{best_single(single, {})};
}

DeviceChoice DeviceAllocator::take(const Offer& offer, std::size_t count) {
  const auto left = left_of(offer);
  count = std::min(count, left.size());
  if (count == 0) { return {}; }
  auto set = nearest(left, count);
  while (set.empty() && --count > 0) { set = nearest(left, count); }
  auto choice = describe(set);
  keep(choice);
  return choice;
}

/// Sets that a victim may get, the best first: as if it were alone, then of one class, then, of cards and
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
  std::erase_if(sets, [](const Slots& set) { return set.empty(); });
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
    const auto set = nearest(left, victim.size());
    if (set.empty()) { break; }
    choices.push_back(describe(set));
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

std::vector<DeviceChoice> DeviceAllocator::take_nics(const Offer& offer, std::size_t count,
                                                     const std::vector<std::vector<DeviceSlot>>& near) {
  NicAssignment assignment(left_of(offer), near);
  assignment.give(count);
  assignment.improve();
  std::vector<DeviceChoice> choices;
  for (std::size_t node = 0; node < near.size(); ++node) {
    choices.push_back(described_nics(assignment.of_nodes()[node], near[node]));
    keep(choices.back());
  }
  return choices;
}

void DeviceAllocator::keep(const DeviceChoice& choice) {
  taken_.insert(taken_.end(), choice.slots.begin(), choice.slots.end());
}

}  // namespace virtrain::harness
