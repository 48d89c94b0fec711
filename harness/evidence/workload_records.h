#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/model/protocol.h"
#include "harness/evidence/rank_output.h"
#include "results/store/records.h"

// Lines of workloads become described records here. Each is foreign: a guest may have written it.

namespace virtrain::harness {

/// A record of a rank; monostate for one that this version does not know.
using Said = std::variant<std::monostate, protocol::Hello, protocol::Ready, protocol::Warmup,
                          protocol::Sample, protocol::Later, protocol::Result, protocol::Failure>;

struct RankRecord {
  std::int64_t rank = 0;
  Said said;
};

/// Decodes one line of standard output. A line that does not begin with '{' is no record (libraries print to
/// standard output too): nothing. Throws Error(protocol) on a broken record, a number that is not finite
/// where one is needed, and whatever else the database would refuse.
std::optional<RankRecord> decode_record(const RankLine& line);
/// Whether it begins as a record and does not end as one: the end of a process cut it.
bool is_half_a_record(const std::string& text);

/// A record of a stressor; monostate for one that nobody reads.
using StressorSaid =
    std::variant<std::monostate, protocol::StressorReady, protocol::Progress, protocol::Failure>;

/// Decodes one line of a stressor's standard output. Nothing where it is no record. Throws Error(protocol) on
/// a broken one.
std::optional<StressorSaid> decode_stressor_record(const RankLine& line);

/// The figures among the records that virtrain-probe has written, measured in this arm and node by this run.
/// Throws Error(trial_failed) where they are not such records.
std::vector<results::Probe> parse_probe_records(const std::string& lines, const std::string& arm,
                                                const std::string& node, std::int64_t run);

}  // namespace virtrain::harness
