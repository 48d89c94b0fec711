#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/diagnosis/nccl_log.h"
#include "results/store/records.h"

namespace virtrain::results {

/// All that one side of a diagnosis has: what its files say.
struct DiagnosedSide {
  std::vector<std::string> files;
  NcclLog nccl;               ///< of all files together
  std::vector<Probe> probes;  ///< of micro-benchmarks
};

/// A collective, a copy or a product that both sides have measured, by its best figure.
struct MeasuredLoss {
  std::string name;  ///< "all_reduce"
  std::string unit;
  double baseline = 0, side = 0;
  /// Share that is missing; below 0: the side is faster. Of a time, the share of the rate.
  double loss() const;
};

/// A cause that the files give evidence of.
struct DiagnosisFinding {
  std::string id;        ///< "NCL-1", as in docs/troubleshooting.md
  std::string says;      ///< what differs from what it should be
  std::string evidence;  ///< what was seen, and where
  std::string cost;      ///< what it takes at most here, where that was measured, else where it was published
  std::string fix;       ///< what to do
  std::string check;     ///< how to see that it helped
};

struct Diagnosis {
  std::vector<MeasuredLoss> losses;        ///< the largest first
  std::vector<DiagnosisFinding> findings;  ///< what has the strongest evidence first
  std::vector<std::string> unknown;        ///< what cannot be told, and what would tell it
};

/// Says what is slow in `side`, and why; held against `baseline` where there is one. Pure.
Diagnosis diagnose(const DiagnosedSide& side, const std::optional<DiagnosedSide>& baseline);

/// A rule of the diagnosis, for docs and tests.
struct DiagnosisRule {
  const char* id;
  const char* title;
};
std::vector<DiagnosisRule> diagnosis_rules();

}  // namespace virtrain::results
