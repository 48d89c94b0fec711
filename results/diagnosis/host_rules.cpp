#include "results/diagnosis/host_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/diagnosis/nccl_rules.h"

namespace virtrain::results {
namespace {

/// A check of `virtrain doctor` as a cause.
struct HostRule {
  const char* id;
  EvidenceGrade grade;
  const char* published;  ///< a loss that somebody has seen; null: nobody whom we know
  std::array<const char*, 4> explains = {};
  const char* needs = nullptr;  ///< where the check could not be made
};

using enum EvidenceGrade;
// The order of equal evidence: what stops work, then what costs most.
constexpr std::array host_rules{
    HostRule{"RST-2", broken,
             "the card answers again when the host was switched off and on (kata-containers issue 11708)"},
    HostRule{"FAB-1", broken, "CUDA starts in no guest (nccl-tests issue 260)", {"NCL-10", "NCL-7"}},
    HostRule{"FAB-2", broken, "CUDA starts in no guest (nccl-tests issue 260)", {"NCL-10", "NCL-7"}},
    HostRule{"BAR-1", broken, "the driver finds no memory region, BAR1 is 0M (kubevirt issue 11093)"},
    HostRule{"KVM-1", broken, nullptr},
    HostRule{"KVM-2", broken, nullptr},
    HostRule{"ECC-1", broken, nullptr},
    HostRule{"MEM-2", broken, "QEMU runs out of memory (kubevirt issue 8472)"},
    HostRule{"MEM-3", broken, "the VM does not start (kubevirt issue 10379)"},
    HostRule{"CLK-1", seen, nullptr, {}, "nvidia-smi on the machine that has the GPUs"},
    HostRule{"LNK-1", seen, nullptr, {"NCL-5", "NCL-12"}},
    HostRule{"LNK-2", seen, nullptr, {"NCL-5", "NCL-12"}},
    HostRule{"AER-1", seen, nullptr, {"NCL-12"}},
    HostRule{"ACS-2",
             may_cost,
             "it halves or hangs on bare metal (nccl issue 2079)",
             {"NCL-1", "NCL-12"},
             "the configuration space of bridges: root, or a host that root has recorded"},
    HostRule{"RDM-1", may_cost, "half of the bandwidth (nccl-tests issue 29)", {"NCL-2", "NCL-3", "NCL-12"}},
    HostRule{"ACS-3",
             may_cost,
             "56 % of bare metal between VMs of two hosts (nccl-tests issue 380)",
             {"NCL-2", "NCL-3", "NCL-12"}},
    HostRule{"RDM-2",
             may_cost,
             "56 % of bare metal between VMs of two hosts (nccl-tests issue 380)",
             {"NCL-2", "NCL-12"}},
    HostRule{"RDM-3", may_cost, nullptr, {"NCL-4", "NCL-12"}},
    HostRule{"TOP-1", may_cost, "0.2 GB/s links in NCCL's eyes (nccl-tests issue 256)", {"NCL-13", "NCL-12"}},
    HostRule{"NUM-0", may_cost, nullptr, {"NCL-2", "NCL-12"}},
    HostRule{"KVM-3", may_cost, nullptr},
    HostRule{"CPU-1", may_cost, nullptr},
    HostRule{"MEM-4", may_cost, nullptr},
    HostRule{"MEM-1", may_cost, nullptr},
    HostRule{"VER-3", may_cost, "minutes until a guest has probed its GPUs (edk2 pull request 10856)"},
    HostRule{"IOM-4", differs, nullptr, {"NCL-11"}}};

/// About lending devices to VMs and keeping tenants apart: nothing of it makes work slow.
constexpr std::array<std::string_view, 29> not_causes{
    "ACS-1", "CH-1",  "CLR-1", "CVM-1", "DRV-1", "DRV-2",  "DRV-3", "ECC-2", "FW-1",  "GPU-0",
    "IOM-1", "IOM-2", "IOM-3", "IOM-5", "KVM-4", "LEAK-1", "LOC-1", "NET-2", "QRT-0", "RST-1",
    "SEC-1", "USE-1", "USE-2", "USE-3", "VER-1", "VER-2",  "VG-2",  "VG-3",  "VG-5"};

/// Grades a check that no row names by its severity.
std::optional<EvidenceGrade> severity_grade(Severity severity) {
  switch (severity) {
    case Severity::blocks:
      return broken;
    case Severity::invalidates:
      return seen;
    case Severity::warns:
      return may_cost;
    case Severity::notes:
      break;
  }
  return std::nullopt;
}

const HostRule* host_rule_of(const std::string& id) {
  const auto* const found = std::ranges::find(host_rules, id, &HostRule::id);
  return found == host_rules.end() ? nullptr : found;
}

std::string check_title(const std::string& found) {
  return found.substr(0, std::min(found.find(": "), found.find("; ")));
}

CauseFinding check_finding(const virtrain::Finding& check, EvidenceGrade grade, const HostRule* rule) {
  CauseFinding one{{check.id, check_title(check.found), "virtrain doctor: " + check.found,
                    rule == nullptr ? "" : published_words(rule->published), check.fix,
                    fmt::format("virtrain doctor --explain {} finds it well", check.id), grade},
                   {}};
  if (rule == nullptr) { return one; }
  for (const char* symptom : rule->explains) {
    if (symptom != nullptr) { one.explains.emplace_back(symptom); }
  }
  one.is.loss = check.loss;
  if (one.is.loss) {
    one.is.cost = fmt::format("at most {:.0f} % of copies to and from the device", *one.is.loss * 100);
  }
  return one;
}

}  // namespace

std::vector<CauseFinding> host_findings(const DiagnosedHost& host) {
  std::vector<CauseFinding> ruled, others;
  for (const auto& rule : host_rules) {
    for (const auto& check : host.checks) {
      if (check.id == rule.id && check.status == CheckStatus::failed) {
        ruled.push_back(check_finding(check, rule.grade, &rule));
      }
    }
  }
  for (const auto& check : host.checks) {
    const auto grade = severity_grade(check.severity);
    if (check.status == CheckStatus::failed && grade && host_rule_of(check.id) == nullptr &&
        std::ranges::find(not_causes, check.id) == not_causes.end()) {
      others.push_back(check_finding(check, *grade, nullptr));
    }
  }
  ruled.insert(ruled.end(), others.begin(), others.end());
  return ruled;
}

std::vector<std::string> host_unknowns(const DiagnosedHost& host) {
  std::vector<std::string> found;
  for (const auto& check : host.checks) {
    const auto* const rule = host_rule_of(check.id);
    if (rule != nullptr && rule->needs != nullptr && check.status == CheckStatus::skipped && host.gpus > 1) {
      found.push_back(fmt::format("{} of the host: needs {}", check.id, rule->needs));
    }
  }
  return found;
}

}  // namespace virtrain::results
