#include "results/comparison/comparability.h"

#include <array>

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
    FieldRule{"numa", explained_by_the_arm, "a guest sees the topology it was given"},
    FieldRule{"transport", must_be_equal, "shared memory against TCP is not a question of virtualization"},
    FieldRule{"trainer_build", must_be_equal, "another build is another workload"},
    FieldRule{"workload_flags", must_be_equal, "other flags are another workload"},
    FieldRule{"batch_size", must_be_equal, "another batch size is another workload"},
    FieldRule{"precision", must_be_equal, "another precision is another workload"},
    FieldRule{"backend", must_be_equal, "another backend is another workload"},
    FieldRule{"nodes", must_be_equal, "the arms must have as many nodes"},
    FieldRule{"gpus_per_node", must_be_equal, "the arms must have as many GPUs"},
    FieldRule{"isa", explained_by_the_arm, "the library picks it by the CPU it sees"},
    FieldRule{"temperature", informative, "it differs at every start"},
};

constexpr std::string_view host_prefix = "host.";

void compare_field(const std::string& field, FactRule rule, const Facts& baseline, const Facts& candidate,
                   std::vector<FactDifference>& found) {
  const auto ours = baseline.find(field);
  const auto theirs = candidate.find(field);
  if (ours == baseline.end() || theirs == candidate.end() || ours->second == theirs->second) return;
  found.push_back({field, rule, ours->second, theirs->second});
}

}  // namespace

const char* to_string(FactRule rule) {
  switch (rule) {
    case must_be_equal:
      return "must_be_equal";
    case explained_by_the_arm:
      return "explained_by_the_arm";
    case informative:
      return "informative";
  }
  return "";
}

std::span<const FieldRule> field_rules() {
  return rules;
}

std::vector<FactDifference> differences(const Facts& baseline, const Facts& candidate) {
  std::vector<FactDifference> found;
  for (const auto& [field, rule, why] : rules) {
    compare_field(std::string(field), rule, baseline, candidate, found);
    // No arm explains a difference between two hosts.
    const FactRule between_hosts = rule == informative ? informative : must_be_equal;
    compare_field(std::string(host_prefix) + std::string(field), between_hosts, baseline, candidate, found);
  }
  return found;
}

bool forbids(const FactDifference& difference) {
  return difference.rule == must_be_equal;
}

}  // namespace virtrain::results
