#pragma once

#include "harness/trial/live_trial.h"

// Rows that a trial leaves in the database: samples as they come, results at the end.

namespace virtrain::harness {

void save_tenants(LiveTrial& trial);
void save_nodes(LiveTrial& trial);
/// Keeps a rank's report on itself, to be stored with its next samples.
void take_record(LiveTenant& tenant, std::int64_t rank, const RankRecord& record);
/// Samples, telemetry and figures that came since the last call. Throws Error(trial_failed) where the schema
/// refuses a row, and drops what was buffered.
void store_new_rows(LiveTrial& trial);
/// All that a trial has come to, whether it is valid included.
void store_results(LiveTrial& trial);

}  // namespace virtrain::harness
