#include "results/comparison/guard/comparability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "common/contains.h"
#include "common/model/workload.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

using enum FactRule;

/// Beside these there are those of the workload's own description.
constexpr std::array fact_rules = {
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
    FieldRule{"vgpu_scheduler", must_be_equal,
              "it decides what a vGPU gets while others of its card are idle", true},
    FieldRule{"iommu", explained_by_the_arm, "passthrough needs it; bare metal may go without"},
    FieldRule{"clocks", must_be_equal, "throughput follows the clock"},
    FieldRule{"power_limit", must_be_equal, "throughput follows the power limit"},
    FieldRule{"ecc", must_be_equal, "ECC costs memory bandwidth"},
    FieldRule{"mig", must_be_equal, "MIG cuts the card into parts"},
    FieldRule{"fusion", must_be_equal, "another level or other shapes apart run other kernels"},
    FieldRule{"gpu_virtualization", explained_by_the_arm, "passthrough and vGPUs are what the arm is"},
    FieldRule{"gpu_pcie_generation", explained_by_the_arm, "a guest sees the link of a virtual port"},
    FieldRule{"gpu_pcie_width", explained_by_the_arm, "a guest sees the link of a virtual port"},
    FieldRule{"numa", explained_by_the_arm, "a guest sees the topology it was given"},
    FieldRule{"peer_to_peer", explained_by_the_arm, "virtualization may part GPUs that reach each other"},
    FieldRule{"transport", must_be_equal, "shared memory against TCP is not a question of virtualization"},
    FieldRule{"network_medium", must_be_equal,
              "slices and VMs of one pair are on the same kind of network: a shared medium is slower than a "
              "bridge, "
              "and a host's own NIC faster than a VXLAN or a bridge behind it",
              true},
    FieldRule{"nic_driver", explained_by_the_arm, "the guest's kernel may have another one for the NIC"},
    FieldRule{"nic_mac", informative, "it follows from experiment and node"},
    FieldRule{"payload_sha256", must_be_equal, "another payload is another environment of the job", true},
    FieldRule{"trainer_build", must_be_equal, "another build is another workload"},
    FieldRule{"threads_per_rank", must_be_equal, "more threads are more of the machine", true},
    FieldRule{"workload_flags", must_be_equal,
              "imported records may say so: other flags are another workload", true},
    FieldRule{"nodes", must_be_equal, "both arms need the same number of nodes", true},
    FieldRule{"gpus_per_node", must_be_equal, "both arms need the same number of GPUs", true},
    FieldRule{"isa", explained_by_the_arm, "the library picks it by the CPU it sees"},
    FieldRule{"governor", explained_by_the_arm, "a guest has no governor of its own"},
    FieldRule{"smt", explained_by_the_arm, "a guest sees the threads it was given"},
    FieldRule{"open_mpi", must_be_equal, "it carries the gradients of the CPU version"},
    FieldRule{"command_line", informative, "the kernel's options; those that matter have rows of their own"},
    FieldRule{"product", informative, "the machine's name says less than its parts"},
    FieldRule{"hypervisor", informative, "it is what is measured"},
    FieldRule{"told_from_inside", informative, "its own host was not asked"},
    FieldRule{"qemu", informative, "it is part of what is measured"},
    FieldRule{"libvirt", informative, "it only starts and stops"},
    FieldRule{"temperature", informative, "it differs at every start"},
    FieldRule{"gpu_licensed", informative, "each trial's own validity judges it"},
    FieldRule{"repeatable", informative, "it follows from the kernels, and costs nothing itself"},
};

/// The workload's stand between what was built and where it ran.
std::vector<FieldRule> all_rules() {
  std::vector<FieldRule> rules;
  for (const auto& rule : fact_rules) {
    if (rule.field == "nodes") {
      const auto add = [&rules](const auto& field) {
        if (field.is.guard) { rules.push_back({field.name, *field.is.guard, field.is.why, true}); }
      };
      for_each_field<Workload>(add);
      for_each_field<Job>(add);
    }
    rules.push_back(rule);
  }
  return rules;
}

/// The facts that follow from a key of the scenario, or one below it, where an arm sets it; "NCCL_" begins
/// names of variables. From keys that are not here none does. A test decides on every key of the schema.
struct KeyEffect {
  std::string_view key, fields;
};
/// Facts that follow from the sockets and threads that QEMU shows a guest: a socket of several threads has
/// the flag ht, and by siblings the kernel decides on STIBP.
constexpr std::string_view seen_cores = "cpu_flags mitigations numa smt";
constexpr std::array key_effects = {
    KeyEffect{"workload.env", "environment"},
    KeyEffect{"workload.env.ONEDNN_", "isa"},
    KeyEffect{"workload.env.DNNL_", "isa"},
    KeyEffect{"workload.env.NCCL_", "transport peer_to_peer"},
    KeyEffect{"workload.env.OMPI_", "transport"},
    KeyEffect{"workload.env.UCX_", "transport"},
    KeyEffect{"workload.env.FI_", "transport"},
    KeyEffect{"workload.threads", "threads_per_rank"},
    KeyEffect{"devices.settings.power_limit", "power_limit"},
    KeyEffect{"devices.settings.graphics_clock", "clocks"},
    KeyEffect{"devices.settings.ecc", "ecc"},
    // Instances of MIG do not reach each other.
    KeyEffect{"devices.settings.mig", "mig transport peer_to_peer"},
    // A type may be backed by MIG; of the others those of a whole card reach each other.
    KeyEffect{"devices.type", "gpu_name mig transport peer_to_peer"},
    KeyEffect{"devices.vgpu_scheduler", "vgpu_scheduler"},
    KeyEffect{"devices.nics", "transport peer_to_peer"},
    KeyEffect{"devices.clique", "transport peer_to_peer"},
    // Kernel and driver are the image's: a kernel names the flags that it knows, and AMX needs its help. The
    // job's own libraries are the same in all images.
    KeyEffect{"guest.image", "kernel driver cpu_flags mitigations isa peer_to_peer"},
    KeyEffect{"guest.vcpus", seen_cores},
    KeyEffect{"guest.vcpus", "threads_per_rank"},
    KeyEffect{"guest.pinning", seen_cores},
    KeyEffect{"guest.smt", seen_cores},
    // A named model has flags and a microcode of its own, and the flaws that it is known for.
    KeyEffect{"guest.cpu_model", "cpu_model cpu_flags microcode mitigations isa"},
    KeyEffect{"guest.template", "cpu_model cpu_flags microcode mitigations isa"},
    // The port above a GPU decides which link it shows.
    KeyEffect{"guest.topology", "numa transport peer_to_peer gpu_pcie_generation gpu_pcie_width"},
    // A confidential guest boots EFI; its processor shows what AMD's firmware or Intel's module lets through.
    // Devices that write to bounce buffers do not reach each other.
    KeyEffect{"guest.memory_encryption", "bios cpu_flags microcode mitigations isa transport peer_to_peer"},
    KeyEffect{"guest.nccl_topology", "transport peer_to_peer"},
};

bool is_at_or_below(const std::string& key, std::string_view parent) {
  return key == parent || key.starts_with(std::string(parent) + (parent.ends_with('_') ? "" : "."));
}

bool follows_from(std::string_view field, const std::set<std::string>& changed) {
  return std::ranges::any_of(key_effects, [&](const KeyEffect& effect) {
    return contains(words_of(effect.fields), field) &&
           std::ranges::any_of(changed, [&](const auto& key) { return is_at_or_below(key, effect.key); });
  });
}

using Values = std::set<std::string>;

/// Environments without the variables that an arm sets on purpose.
Values beside_changes(const Values& values, const std::set<std::string>& changed) {
  constexpr std::string_view variables = "workload.env.";
  Values left;
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

/// Fields of cards, whose value lists those of all of a node's ranks, joined by ", ". One node of an arm may
/// hold the ranks that are spread over several nodes in the other, so the listed values must be the same.
constexpr std::array<std::string_view, 12> listed_fields = {
    "gpu_uuid",           "gpu_name",     "vbios",
    "power_limit",        "ecc",          "mig",
    "gpu_virtualization", "gpu_licensed", "gpu_pcie_generation",
    "gpu_pcie_width",     "peer_to_peer", "clocks"};

constexpr std::string_view host_prefix = "host.";

/// Meaning of a field's values, whichever nodes they are of.
Values meaning_of(std::string_view field, const Values& values) {
  if (std::ranges::find(listed_fields, field) == listed_fields.end()) { return values; }
  Values all;
  for (const auto& value : values) {
    for (const auto& one : split(value, ',')) { all.insert(std::string(trim(one))); }
  }
  return all;
}

/// Values of a field on one side.
struct SideValues {
  Values all = {};
  std::int64_t known = 0;                      ///< trials that know it
  std::map<Values, std::int64_t> trials = {};  ///< of them, by what their values mean

  void add(const Values& values, const Values& meaning, std::int64_t count) {
    all.insert(values.begin(), values.end());
    trials[meaning] += count;
    known += count;
  }
  std::int64_t with(const Values& meaning) const {
    const auto found = trials.find(meaning);
    return found == trials.end() ? 0 : found->second;
  }
};

/// Values that are seen by another share of the trials on each side: "470 in 9 of 10 trials against 1 of 10";
/// empty where there are none. A trial that is missing makes no difference, nor do five of a hundred.
std::string unequal_shares(const SideValues& ours, const SideValues& theirs) {
  auto meanings = ours.trials;
  meanings.insert(theirs.trials.begin(), theirs.trials.end());
  for (const auto& [meaning, count] : meanings) {
    const auto before = ours.with(meaning);
    const auto after = theirs.with(meaning);
    const auto apart = std::abs(before * theirs.known - after * ours.known);  // times both numbers of trials
    const auto one_trial = std::max(ours.known, theirs.known);
    if (apart <= std::max(one_trial, ours.known * theirs.known / 20)) { continue; }
    return fmt::format("{} in {} of {} against {} of {}", words_of_values(meaning), before,
                       counted(ours.known, "trial"), after, theirs.known);
  }
  return {};
}

/// How the trials differ in a field, by what `meaning` makes of its values; nothing where they do not, or one
/// side does not know it.
template <typename Meaning>
std::optional<FactDifference> difference_in(const std::string& field, const ComparedFacts& compared,
                                            bool must_have_equal_shares, const Meaning& meaning) {
  const auto values_in = [&](const Facts* facts) -> const Values* {
    if (facts == nullptr) { return nullptr; }
    const auto found = facts->find(field);
    return found == facts->end() ? nullptr : &found->second;
  };
  FactDifference found{field, must_be_equal, {}, {}};
  SideValues ours, theirs;
  std::int64_t pairs = 0, differing = 0;
  for (const auto& [pair, count] : compared) {
    const auto* before = values_in(pair.first);
    const auto* after = values_in(pair.second);
    if (before != nullptr) { ours.add(*before, meaning(*before), count); }
    if (after != nullptr) { theirs.add(*after, meaning(*after), count); }
    if (before == nullptr || after == nullptr) { continue; }
    pairs += count;
    if (meaning(*before) == meaning(*after)) { continue; }
    differing += count;
    found.baseline.insert(before->begin(), before->end());
    found.candidate.insert(after->begin(), after->end());
  }
  if (ours.known == 0 || theirs.known == 0) { return std::nullopt; }
  if (differing > 0) {
    const bool plain = differing == pairs && found.baseline != found.candidate;
    if (!plain) { found.detail = fmt::format("in {} of {}", differing, counted(pairs, "pair")); }
    return found;
  }
  found.baseline = ours.all;
  found.candidate = theirs.all;
  if (meaning(ours.all) != meaning(theirs.all)) { return found; }
  if (pairs > 0 || !must_have_equal_shares) { return std::nullopt; }
  found.detail = unequal_shares(ours, theirs);
  return found.detail.empty() ? std::nullopt : std::optional(found);
}

/// Words that two lists (CPU flags, mitigations) do not share; empty where a side has no list.
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

bool are_equal(std::string_view field, const std::set<std::string>& ours,
               const std::set<std::string>& theirs) {
  return meaning_of(field, ours) == meaning_of(field, theirs);
}

std::span<const FieldRule> field_rules() {
  static const auto rules = all_rules();
  return rules;
}

std::vector<std::string> fields_with_rules() {
  std::vector<std::string> fields;
  for (const auto& rule : field_rules()) { fields.emplace_back(rule.field); }
  return fields;
}

std::vector<FactDifference> differences(const Facts& baseline, const Facts& candidate, bool one_arm,
                                        const std::set<std::string>& changed) {
  return differences({{{&baseline, &candidate}, 1}}, one_arm, changed);
}

std::vector<FactDifference> differences(const ComparedFacts& compared, bool one_arm,
                                        const std::set<std::string>& changed) {
  std::vector<FactDifference> found;
  for (const auto& rule : field_rules()) {
    const auto meaning = [&](const Values& values) { return meaning_of(rule.field, values); };
    const auto unchanged = [&](const Values& values) { return beside_changes(values, changed); };
    const auto compare_field = [&](const std::string& field, FactRule here, std::string_view why) {
      auto difference = difference_in(field, compared, here == must_be_equal, meaning);
      if (!difference) { return; }
      difference->rule = here;
      difference->why = why;
      found.push_back(std::move(*difference));
    };
    // No arm explains a difference between two hosts, or between two runs of one arm.
    const FactRule strict = rule.rule == informative ? informative : must_be_equal;
    const std::string field(rule.field);
    const bool intended = rule.rule != informative && follows_from(rule.field, changed) &&
                          (field != "environment" || !difference_in(field, compared, true, unchanged));
    if (intended) {
      compare_field(field, explained_by_the_arm, "an arm changes it on purpose");
    } else {
      compare_field(field, one_arm ? strict : rule.rule, rule.why);
    }
    compare_field(std::string(host_prefix) + field, strict, rule.why);
  }
  return found;
}

void read_as_change(std::vector<FactDifference>& differences, const std::set<std::string>& meant) {
  for (auto& difference : differences) {
    auto field = difference.field;
    if (field.starts_with(host_prefix)) { field.erase(0, host_prefix.size()); }
    const auto rule = std::ranges::find(field_rules(), field, &FieldRule::field);
    if (!forbids(difference) || rule == field_rules().end() || rule->of_work) { continue; }
    if (meant.contains(field)) {
      difference.rule = explained_by_the_arm;
      difference.why = "it was meant to change";
    } else {
      difference.rule = part_of_the_change;
    }
  }
}

std::string to_sentence(const FactDifference& difference, const std::string& baseline,
                        const std::string& candidate) {
  auto values = unshared_words(difference);
  if (difference.baseline == difference.candidate) {
    values = difference.detail;
  } else {
    if (values.empty()) {
      values = fmt::format("{} in {}, {} in {}", words_of_values(difference.baseline), baseline,
                           words_of_values(difference.candidate), candidate);
    }
    if (!difference.detail.empty()) { values += ", " + difference.detail; }
  }
  const char* meaning = difference.rule == must_be_equal          ? "it must be equal"
                        : difference.rule == explained_by_the_arm ? "explained by the arm"
                        : difference.rule == part_of_the_change   ? "part of what changed"
                                                                  : "informative";
  return fmt::format("{} differs: {} ({}: {})", difference.field, values, meaning, difference.why);
}

bool forbids(const FactDifference& difference) {
  return difference.rule == must_be_equal;
}

std::vector<std::string> what_forbids(const std::vector<FactDifference>& differences,
                                      const std::string& baseline, const std::string& candidate) {
  std::vector<std::string> sentences;
  for (const auto& one : differences) {
    if (forbids(one)) { sentences.push_back(to_sentence(one, baseline, candidate)); }
  }
  return sentences;
}

}  // namespace virtrain::results
