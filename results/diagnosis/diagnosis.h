#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/check.h"
#include "results/comparison/compare.h"
#include "results/diagnosis/listings.h"
#include "results/diagnosis/nccl_log.h"
#include "results/store/records.h"

namespace virtrain::results {

/// Holds what a host's checks found, and what files about it are held against.
struct DiagnosedHost {
  struct Function {
    int numa_node = -1;              ///< -1: the firmware does not say
    std::uint64_t region_bytes = 0;  ///< room that its 64-bit memory regions take in a guest
  };
  std::string name;
  std::vector<virtrain::Finding> checks;      ///< of `virtrain doctor`
  std::map<std::string, Function> functions;  ///< PCI devices by address
  std::map<int, int> node_of_cpu;             ///< NUMA nodes by logical CPU
  std::size_t gpus = 0;
  std::uint64_t room_of_named_cpu = 0;  ///< for such regions in a guest whose CPU is a model with a name
};

/// All that one side of a diagnosis has: what its files say, and its host.
struct DiagnosedSide {
  std::vector<std::string> files = {};
  NcclLog nccl = {};                        ///< of all files together
  std::vector<Probe> probes = {};           ///< of micro-benchmarks
  std::vector<TopoMatrix> topologies = {};  ///< nvidia-smi topo -m
  std::vector<PciListing> listings = {};    ///< lspci -vvv
  std::vector<GuestDomain> domains = {};    ///< virsh dumpxml
  std::optional<DiagnosedHost> host = {};
  std::vector<CaseComparison> cases = {};  ///< stored, explained, with the other arm as baseline
  std::map<std::string, std::int64_t> invalid_trials = {};  ///< stored: by reason, how many
};

/// A collective, a copy or a product that both sides have measured, by its best figure.
struct MeasuredLoss {
  std::string name;  ///< "all_reduce"
  std::string unit;
  double baseline = 0, side = 0;
  /// Share that is missing; below 0: the side is faster. Of a time, the share of the rate.
  double loss() const;
};

/// How much the evidence of a finding weighs, the heaviest first: a symptom and its cause were both seen; it
/// cannot work; it was seen at work; it costs elsewhere; it differs.
VIRTRAIN_ENUM_CLASS(EvidenceGrade, explained, broken, seen, may_cost, differs)

/// A cause that there is evidence of.
struct DiagnosisFinding {
  std::string id;        ///< "NCL-1", as in docs/troubleshooting.md; of a host, as in docs/checks.md
  std::string says;      ///< what differs from what it should be
  std::string evidence;  ///< what was seen, and where
  std::string cost;      ///< what it takes at most here, where that was measured, else where it was published
  std::string fix;       ///< what to do
  std::string check;     ///< how to see that it helped
  EvidenceGrade grade = EvidenceGrade::seen;
  std::optional<double> loss = {};  ///< share of a rate that it takes at most, as `cost` says
};

struct Diagnosis {
  std::vector<MeasuredLoss> losses;         ///< the largest first
  std::vector<DiagnosisFinding> findings;   ///< what has the strongest evidence first
  std::vector<std::string> unknown;         ///< what cannot be told, and what would tell it
  std::vector<std::string> contradictions;  ///< inputs that are not of one machine
  std::string scenario;                     ///< that measures again what is slow; empty: nothing is wrong
};

/// Says what is slow in `side`, and why; held against `baseline` where there is one. Pure.
Diagnosis diagnose(const DiagnosedSide& side, const std::optional<DiagnosedSide>& baseline);

/// A rule of the diagnosis, for docs and tests.
struct DiagnosisRule {
  const char* id;
  const char* title;
};
/// All but checks of hosts.
std::vector<DiagnosisRule> diagnosis_rules();

}  // namespace virtrain::results
