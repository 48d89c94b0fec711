#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "results/comparison/causes/explain.h"
#include "results/comparison/causes/predict.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/selector.h"
#include "results/comparison/sweep.h"
#include "results/statistics/isolation.h"
#include "results/statistics/sequential.h"
#include "results/statistics/statistics.h"
#include "results/store/comparison_data.h"

namespace virtrain::results {

struct CompareRequest {
  Selection selection = {};
  std::string case_name = {};  ///< one case only; empty for all
  /// An arm, or terms as parse_selector() reads them; empty: as default_pairs() says, or to go with the
  /// other.
  std::string baseline = {};
  std::string candidate = {};
  Settings settings = {};
  bool force = false;  ///< a verdict although facts differ that must not; said as a flag
  /// Facts that were meant to change between two labels, dates, hosts or experiments.
  std::set<std::string> changed = {};
  bool by_test = false;  ///< a verdict whatever was emulated and differs: on what a change did on this host
  bool explain = false;  ///< read telemetry, ranks and probes, and rank causes
  std::vector<std::int64_t> predict = {};  ///< sizes to predict weak scaling for; empty: no prediction
};

/// Another experiment's published speedup at the same step of a weak scaling.
struct PublishedSpeedup {
  double speedup = 1;
  double efficiency = 1;
  std::string experiment = {};  ///< where it comes from
};

/// One tenant of a case with several, against its own run alone.
struct TenantAlone {
  std::int64_t tenant_index = 0;
  std::string name = {};
  std::string alone_case = {};
  double alone_throughput = 0;
  double shared_throughput = 0;
  std::string unit = images_unit;          ///< of both
  double slowdown = 1;                     ///< alone / shared
  std::optional<TailInflation> tail = {};  ///< where both have step times
};
struct TenantsAlone {
  std::vector<TenantAlone> tenants = {};
  std::optional<Isolation> isolation = {};  ///< where every tenant has its run alone
};

/// One arm of a case: what the table shows a line for.
struct ArmSummary {
  std::string arm;
  std::int64_t nodes = 1;
  std::int64_t runs = 0;                  ///< valid finished trials
  std::optional<double> throughput = {};  ///< mean over them, of the trial
  std::string unit = images_unit;         ///< of it
  std::vector<double> throughputs = {};   ///< of each of them
  std::vector<std::string> boots = {};    ///< likewise, in which boot it ran; "" where nobody said
  std::vector<TenantMean> tenants = {};
  std::optional<Scaling> scaling = {};        ///< where the case is FAMILY/NODES and FAMILY/1 was run
  std::set<std::string> virtualization = {};  ///< what was virtual; "" where nobody said
  bool oversubscribed = false;
  std::optional<PublishedSpeedup> published = {};
  std::optional<SweepStanding> sweep = {};            ///< where the case is a point of a sweep
  std::optional<double> images_per_joule = {};        ///< of its GPUs, where a power limit was swept
  std::optional<double> cpu_images_per_joule = {};    ///< of the host's processors (RAPL), likewise
  std::optional<double> work_per_currency_unit = {};  ///< images, tokens, …; where the scenario has prices
  std::string currency = {};
  std::optional<TenantsAlone> alone = {};     ///< where the case has several tenants, and runs alone exist
  std::optional<Prediction> prediction = {};  ///< of the case's weak scaling, where asked for
};

/// The unit of one value of the statistics.
VIRTRAIN_ENUM_CLASS(Unit, pair, trial, boot_session)

/// The answer for one case.
struct CaseComparison {
  std::string case_name;
  std::string baseline;
  std::string candidate;
  CaseKey key = {};
  std::string throughput_unit = images_unit;
  bool is_beside = false;     ///< the candidate ran beside a neighbour
  std::string arm = {};       ///< where selectors compare each arm with itself
  bool first_of_case = true;  ///< false: an earlier one has the same arms, and compares two others of them
  Settings settings = {};     ///< where pairs were looked at early, those of the last look
  std::optional<Looks> looks = {};  ///< where they were
  bool paired = false;
  bool pairs_follow_each_other = false;
  bool forced = false;     ///< the verdict was given although facts differ that must not
  bool published = false;  ///< imported rows that do not say what was virtual
  Unit unit = Unit::trial;
  std::optional<std::int64_t> n = {};  ///< complete pairs
  std::optional<std::int64_t> dropped_pairs = {};
  std::optional<std::int64_t> n_baseline = {};          ///< runs, where unpaired
  std::optional<std::int64_t> n_candidate = {};         ///< likewise
  std::optional<std::int64_t> sessions_baseline = {};   ///< boot sessions, where they are the unit
  std::optional<std::int64_t> sessions_candidate = {};  ///< likewise
  std::int64_t unpaired_left_out = 0;
  std::int64_t invalid_left_out = 0;
  std::optional<RatioTest> test = {};  ///< none where one side has no data
  std::optional<std::int64_t> further_pairs = {};
  std::optional<double> lag1 = {};  ///< autocorrelation of neighbouring pairs
  std::optional<WelchTest> welch = {};
  std::optional<FiellerInterval> fieller = {};
  std::optional<double> ratio_of_means = {};  ///< where unpaired
  std::optional<double> p_worse_holm = {};    ///< of test->p_worse, corrected for all cases of the comparison
  Verdict verdict = Verdict::inconclusive;
  /// too_few_pairs, too_few_runs, too_few_sessions, pooled_looks, no_data, emulated, differs or empty
  std::string reason = {};
  bool between_machines = false;  ///< an arm's nodes are machines that the other's are not
  bool told_from_inside = false;  ///< machines told what is virtual there, and their hosts were not asked
  std::set<std::string> hosts_differ = {};  ///< fields in which the hosts of its runs are not alike
  std::vector<std::string> flags = {};  ///< words for programs: zero_variance, emulated, unpaired_left_out, …
  std::vector<std::string> notes = {};  ///< sentences for people
  std::vector<FactDifference> differences = {};
  std::vector<ArmSummary> arms = {};            ///< in the order they were first run
  std::optional<Explanation> explanation = {};  ///< where asked for
};

/// Compares every case of the data, in plan order. Pure.
std::vector<CaseComparison> compare(const ComparisonData& data, const CompareRequest& request);

/// The note on a case of which an arm was emulated.
inline constexpr const char* emulated_note = "a virtual machine was emulated, not run by the processor";

/// Adds what a reader must know about a comparison: a word each in `flags`, a sentence each in `notes`.
/// `predicts`: predictions were asked for.
void add_flags(CaseComparison& result, bool predicts);

}  // namespace virtrain::results
