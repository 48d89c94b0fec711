#include "results/comparison/guard/comparability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/text/json.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

using enum FactRule;

constexpr std::array rules = {
    FieldRule{"gpu_uuid", must_be_equal, "two cards of one model differ by more than virtualization costs"},
    FieldRule{"gpu_name", must_be_equal, "another model is another experiment"},
    FieldRule{"driver", must_be_equal, "the GPU driver carries the kernels' launches"},
    FieldRule{"cuda", must_be_equal, "the runtime is part of the workload"},
    FieldRule{"cudnn", must_be_equal, "it chooses the convolution kernels"},
    FieldRule{"nccl", must_be_equal, "it carries the gradients"},
    FieldRule{"kernel", must_be_equal,
              "guest and host run the same one, so that only the hypervisor differs"},
    FieldRule{"cpu_model", explained_by_the_arm, "the hypervisor chooses the guest's CPU"},
    FieldRule{"cpu_flags", explained_by_the_arm, "a guest has the flag hypervisor and lacks others"},
    FieldRule{"microcode", explained_by_the_arm, "guests are told a made-up revision"},
    FieldRule{"bios", explained_by_the_arm, "a guest boots the hypervisor's firmware"},
    FieldRule{"vbios", must_be_equal, "it sets the card's limits"},
    FieldRule{"mitigations", explained_by_the_arm, "a guest picks its own by the CPU it sees"},
    FieldRule{"iommu", explained_by_the_arm, "passthrough needs it; bare metal may go without"},
    FieldRule{"clocks", must_be_equal, "throughput follows the clock"},
    FieldRule{"power_limit", must_be_equal, "throughput follows the power limit"},
    FieldRule{"ecc", must_be_equal, "ECC costs memory bandwidth"},
    FieldRule{"mig", must_be_equal, "MIG cuts the card into parts"},
    FieldRule{"fusion", must_be_equal, "another level of fusion runs other kernels"},
    FieldRule{"gpu_virtualization", explained_by_the_arm, "passthrough and vGPUs are what the arm is"},
    FieldRule{"gpu_pcie_generation", explained_by_the_arm, "a guest sees the link of a virtual port"},
    FieldRule{"gpu_pcie_width", explained_by_the_arm, "a guest sees the link of a virtual port"},
    FieldRule{"numa", explained_by_the_arm, "a guest sees the topology it was given"},
    FieldRule{"peer_to_peer", explained_by_the_arm, "virtualization may part GPUs that reach each other"},
    FieldRule{"transport", must_be_equal, "shared memory against TCP is not a question of virtualization"},
    FieldRule{"network_medium", must_be_equal,
              "a shared medium is slower than a bridge, and keeps nobody apart"},
    FieldRule{"trainer_build", must_be_equal, "another build is another workload"},
    FieldRule{"threads_per_rank", must_be_equal, "more threads are more of the machine"},
    FieldRule{"workload_flags", must_be_equal,
              "imported records may say so: other flags are another workload"},
    FieldRule{"model", must_be_equal, "another model is another workload"},
    FieldRule{"image_size", must_be_equal, "another image size is another workload"},
    FieldRule{"accumulate_steps", must_be_equal, "it decides how often gradients are sent"},
    FieldRule{"bucket_mib", must_be_equal, "it decides in how many parts gradients are sent"},
    FieldRule{"environment", must_be_equal, "its variables steer libraries: NCCL, MPI, oneDNN"},
    FieldRule{"batch_size", must_be_equal, "another batch size is another workload"},
    FieldRule{"precision", must_be_equal, "another precision is another workload"},
    FieldRule{"backend", must_be_equal, "another backend is another workload"},
    FieldRule{"nodes", must_be_equal, "both arms need the same number of nodes"},
    FieldRule{"gpus_per_node", must_be_equal, "both arms need the same number of GPUs"},
    FieldRule{"isa", explained_by_the_arm, "the library picks it by the CPU it sees"},
    FieldRule{"governor", explained_by_the_arm, "a guest has no governor of its own"},
    FieldRule{"smt", explained_by_the_arm, "a guest sees the threads it was given"},
    FieldRule{"open_mpi", must_be_equal, "it carries the gradients of the CPU version"},
    FieldRule{"command_line", informative, "the kernel's options; those that matter have rows of their own"},
    FieldRule{"product", informative, "the machine's name says less than its parts"},
    FieldRule{"hypervisor", informative, "it is what is measured"},
    FieldRule{"qemu", informative, "it is part of what is measured"},
    FieldRule{"libvirt", informative, "it only starts and stops"},
    FieldRule{"temperature", informative, "it differs at every start"},
    FieldRule{"gpu_licensed", informative, "each trial's own validity judges it"},
    FieldRule{"repeatable", informative, "it follows from the kernels, and costs nothing itself"},
};

/// What a key of the scenario, or one below it, changes when an arm sets it; "NCCL_" begins names of
/// variables.
struct KeyEffect {
  std::string_view key, field;
};
constexpr std::array key_effects = {
    KeyEffect{"workload.env", "environment"},
    KeyEffect{"workload.env.ONEDNN_", "isa"},
    KeyEffect{"workload.env.DNNL_", "isa"},
    KeyEffect{"workload.env.NCCL_", "transport"},
    KeyEffect{"workload.env.OMPI_", "transport"},
    KeyEffect{"workload.env.UCX_", "transport"},
    KeyEffect{"workload.env.FI_", "transport"},
    KeyEffect{"workload.threads", "threads_per_rank"},
    KeyEffect{"devices.settings.power_limit", "power_limit"},
    KeyEffect{"devices.settings.graphics_clock", "clocks"},
    KeyEffect{"devices.settings.ecc", "ecc"},
    KeyEffect{"devices.settings.mig", "mig"},
    KeyEffect{"devices.type", "gpu_name"},
    KeyEffect{"devices.nics", "transport"},
    KeyEffect{"devices.clique", "peer_to_peer"},
    KeyEffect{"devices.clique", "transport"},
    KeyEffect{"guest.nccl_topology", "transport"},
    KeyEffect{"guest.topology", "transport"},
    KeyEffect{"guest.cpu_model", "isa"},
    KeyEffect{"guest.smt", "numa"},
    KeyEffect{"guest.smt", "smt"},
    KeyEffect{"guest.vcpus", "threads_per_rank"},
    KeyEffect{"guest.vcpus", "numa"},
    KeyEffect{"guest.pinning", "numa"},
    KeyEffect{"guest.topology", "numa"},
    KeyEffect{"guest.topology", "peer_to_peer"},
    KeyEffect{"guest.memory_encryption", "mitigations"},
    KeyEffect{"guest.image", "kernel"},
    KeyEffect{"guest.image", "driver"},
    KeyEffect{"guest.image", "cuda"},
    KeyEffect{"guest.image", "cudnn"},
    KeyEffect{"guest.image", "nccl"},
    KeyEffect{"guest.image", "open_mpi"},
    KeyEffect{"guest.image", "mitigations"},
};

bool follows_from(std::string_view field, const std::set<std::string>& changed) {
  return std::any_of(key_effects.begin(), key_effects.end(), [&](const KeyEffect& effect) {
    return effect.field == field && std::any_of(changed.begin(), changed.end(), [&](const auto& key) {
             return key == effect.key ||
                    key.starts_with(std::string(effect.key) + (effect.key.ends_with('_') ? "" : "."));
           });
  });
}

/// The values of a fact without what an arm sets on purpose: of environments the variables that are left.
std::set<std::string> beside_changes(std::string_view field, const std::set<std::string>& values,
                                     const std::set<std::string>& changed) {
  constexpr std::string_view variables = "workload.env.";
  if (field != "environment") { return {}; }
  std::set<std::string> left;
  for (const auto& value : values) {
    auto environment = parse_json_or_null(value);
    if (!environment.is_object()) { return {value}; }
    for (const auto& key : changed) {
      if (key.starts_with(variables)) { environment.erase(key.substr(variables.size())); }
    }
    left.insert(dump_json(environment));
  }
  return left;
}

const std::set<std::string>& values_of(const Facts& facts, std::string_view field) {
  static const std::set<std::string> none;
  const auto found = facts.find(std::string(field));
  return found == facts.end() ? none : found->second;
}

/// Fields of cards, whose value lists those of all of a node's ranks, joined by ", ". One node of an arm may
/// hold the ranks that are spread over several nodes in the other, so the listed values must be the same.
constexpr std::array<std::string_view, 12> listed_fields = {
    "gpu_uuid",           "gpu_name",     "vbios",
    "power_limit",        "ecc",          "mig",
    "gpu_virtualization", "gpu_licensed", "gpu_pcie_generation",
    "gpu_pcie_width",     "peer_to_peer", "clocks"};

constexpr std::string_view host_prefix = "host.";

std::set<std::string> listed(const std::set<std::string>& values) {
  std::set<std::string> all;
  for (const auto& value : values) {
    for (const auto& one : split(value, ',')) { all.insert(std::string(trim(one))); }
  }
  return all;
}

/// Values of one field on both sides, if they are known and differ.
void compare_field(const std::string& field, const FieldRule& rule, FactRule strictest, const Facts& baseline,
                   const Facts& candidate, std::vector<FactDifference>& found) {
  const auto ours = baseline.find(field);
  const auto theirs = candidate.find(field);
  if (ours == baseline.end() || theirs == candidate.end()) { return; }
  if (are_equal(rule.field, ours->second, theirs->second)) { return; }
  found.push_back({field, strictest, ours->second, theirs->second, std::string(rule.why)});
}

/// A long value (CPU flags) is cut: the JSON has all of it.
std::string words_of_values(const std::set<std::string>& values) {
  constexpr std::size_t most = 60;
  std::string text = join({values.begin(), values.end()}, ", ");
  if (text.size() <= most) { return text; }
  std::size_t end = most;
  while (end > 0 && (text[end] & 0xC0) == 0x80) {
    --end;  // not inside a character
  }
  return text.substr(0, end) + "…";
}

/// What two lists (CPU flags, mitigations) do not share; empty where a side has no list.
std::string unshared_words(const FactDifference& difference) {
  if (difference.baseline.size() != 1 || difference.candidate.size() != 1) { return ""; }
  const auto words = [](const std::string& text) {
    std::set<std::string> list;
    for (const auto& word : split(text, text.find(';') == std::string::npos ? ' ' : ';')) {
      list.insert(std::string(trim(word)));
    }
    return list;
  };
  const auto ours = words(*difference.baseline.begin());
  const auto theirs = words(*difference.candidate.begin());
  if (std::min(ours.size(), theirs.size()) < 10) { return ""; }
  const auto only_in = [](const std::set<std::string>& some, const std::set<std::string>& others) {
    std::set<std::string> only;
    for (const auto& word : some) {
      if (!others.contains(word)) { only.insert(word); }
    }
    return only.empty() ? std::string("nothing") : words_of_values(only);
  };
  return fmt::format("only the first has {}, only the second {}", only_in(ours, theirs),
                     only_in(theirs, ours));
}

}  // namespace

bool are_equal(std::string_view field, const std::set<std::string>& ours,
               const std::set<std::string>& theirs) {
  if (ours == theirs) { return true; }
  const bool lists = std::find(listed_fields.begin(), listed_fields.end(), field) != listed_fields.end();
  return lists && listed(ours) == listed(theirs);
}

std::span<const FieldRule> field_rules() {
  return rules;
}

std::vector<FactDifference> differences(const Facts& baseline, const Facts& candidate, bool one_arm,
                                        const std::set<std::string>& changed) {
  std::vector<FactDifference> found;
  for (const auto& rule : rules) {
    // No arm explains a difference between two hosts, or between two runs of one arm.
    const FactRule strict = rule.rule == informative ? informative : must_be_equal;
    const bool intended = rule.rule != informative && follows_from(rule.field, changed) &&
                          beside_changes(rule.field, values_of(baseline, rule.field), changed) ==
                              beside_changes(rule.field, values_of(candidate, rule.field), changed);
    const auto here = intended ? explained_by_the_arm : one_arm ? strict : rule.rule;
    const FieldRule meant{rule.field, rule.rule, "an arm changes it on purpose"};
    compare_field(std::string(rule.field), intended ? meant : rule, here, baseline, candidate, found);
    compare_field(std::string(host_prefix) + std::string(rule.field), rule, strict, baseline, candidate,
                  found);
  }
  return found;
}

std::string to_sentence(const FactDifference& difference, const std::string& baseline,
                        const std::string& candidate) {
  const auto words = unshared_words(difference);
  const auto values = words.empty() ? fmt::format("{} in {}, {} in {}", words_of_values(difference.baseline),
                                                  baseline, words_of_values(difference.candidate), candidate)
                                    : words;
  const char* meaning = difference.rule == must_be_equal          ? "it must be equal"
                        : difference.rule == explained_by_the_arm ? "explained by the arm"
                                                                  : "informative";
  return fmt::format("{} differs: {} ({}: {})", difference.field, values, meaning, difference.why);
}

bool forbids(const FactDifference& difference) {
  return difference.rule == must_be_equal;
}

}  // namespace virtrain::results
