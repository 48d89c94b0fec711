#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "results/comparison/case_rows.h"
#include "results/comparison/causes/probe_key.h"
#include "results/comparison/compare.h"

namespace virtrain::results {

/// The data by case, arm and unit, so that each of thousands of cases finds its own at once. Refers to the
/// data.
class DataIndex {
 public:
  explicit DataIndex(const ComparisonData& data);

  const ComparisonData& data() const { return data_; }
  const std::vector<CaseRows>& cases() const { return cases_; }

  /// Rows of a case in this unit that the selector means; empty for an unknown case.
  Rows rows(const std::string& case_name, const std::string& unit, const Selector& selector) const;
  /// Means over all the side's experiments, by tenant_index.
  std::vector<TenantMean> tenants(const std::string& case_name, const std::string& unit,
                                  const Selector& selector) const;
  /// Each tenant's run alone; nothing where the case has one tenant or none of them ran alone.
  std::optional<TenantsAlone> tenants_alone(const std::vector<TenantMean>& tenants,
                                            const Selector& selector) const;
  /// For the guard: the trials of complete pairs.
  ComparedFacts facts_of(const RowPairs& pairs) const;
  /// For the guard: unpaired trials.
  ComparedFacts facts_of(const Rows& baseline, const Rows& candidate) const;
  /// Numbers and facts of one side, but for probes.
  Evidence evidence(const CaseRows& one, const Side& side) const;
  /// Both sides' for the explainer, with what probes measured alike on both.
  std::pair<Evidence, Evidence> evidence(const CaseRows& one, const Side& baseline,
                                         const Side& candidate) const;
  /// The runs of all sizes of a weak scaling in this unit, and the sweeps that belong to them.
  ScalingEvidence scaling(const CaseKey& family, const std::string& unit, const Side& side) const;
  /// The newest published speedup of this case over its size of one node, of the arm and any of these
  /// scenarios.
  std::optional<PublishedSpeedup> published(const CaseRows& one, const std::string& name_of_one,
                                            std::int64_t nodes, const Side& side) const;

 private:
  /// Case, arm, unit: what trials share that say something about each other.
  using Place = std::tuple<std::string, std::string, std::string>;
  /// Arm, nodes, GPUs per node, workload, unit: what two tenants must share to be measured against each
  /// other.
  using Shape = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::string>;

  /// Experiment and place: where all trials have the same facts, but for their own.
  using Origin = std::tuple<std::int64_t, Place>;
  using Columns =
      std::tuple<std::int64_t, std::int64_t, std::optional<std::int64_t>, std::string, std::string>;

  /// All of the experiment: what is known of it as a whole says nothing of some of its dates.
  bool means(const Selector& selector, std::int64_t experiment) const;
  std::vector<const Probe*> probes(const Selector& selector) const;
  /// Those of a usable trial; the same object for all trials with the same origin, columns and facts of
  /// their own.
  const Facts& facts_of(const ComparisonRow& row) const;
  const std::string* alone_case(const TenantMean& tenant, const Selector& selector) const;
  std::vector<double> step_seconds(const Place& place, const Selector& selector,
                                   std::int64_t tenant_index) const;

  const ComparisonData& data_;
  std::vector<CaseRows> cases_;
  std::map<std::pair<std::string, std::string>, const Rows*> rows_of_case_;  ///< by name and unit
  std::map<Place, std::vector<const TenantMean*>> tenants_;
  std::map<Place, std::vector<const StepTimes*>> step_times_;
  std::map<std::int64_t, std::set<std::string>> starts_;                     ///< of an experiment's trials
  std::map<Origin, std::vector<const ArmFact*>> facts_;                      ///< of all trials
  std::unordered_map<std::int64_t, std::vector<const ArmFact*>> own_facts_;  ///< of single trials
  mutable std::map<std::tuple<Origin, Columns, std::vector<const ArmFact*>>, Facts> trial_facts_;
  std::map<Place, std::vector<const ArmNumber*>> numbers_;
  std::map<Shape, std::vector<std::string>> alone_cases_;
  /// By text and arm of both sides: cases share them.
  mutable std::map<std::array<std::string, 4>, SharedProbes> shared_probes_;
  std::map<Place, std::vector<const PublishedMean*>> published_;
};

}  // namespace virtrain::results
