#pragma once

#include "harness/trial/live_trial.h"

// What a trial leaves in the database: its rows as they come, its results at the end.

namespace virtrain::harness {

void save_tenants(LiveTrial& trial);
void save_nodes(LiveTrial& trial);
/// What a rank says of itself is kept, to be stored with its next samples.
void take_record(LiveTrial& trial, LiveTenant& tenant, std::int64_t rank, const RankRecord& record);
/// Samples and telemetry that came since the last call. Throws Error(trial_failed) where the schema refuses a
/// row, and drops what was buffered.
void store_new_rows(LiveTrial& trial);
/// All that a trial has come to, whether it is valid included.
void store_results(LiveTrial& trial);

}  // namespace virtrain::harness
