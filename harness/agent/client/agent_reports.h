#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace virtrain::harness {

// An agent's reports come from a guest: they are checked here, when they are received, for everything that
// the database or a reader of it asks for later.

/// Facts of a node by name: text, or a finite number of at least 0; text is made safe to show. Throws
/// Error(protocol) on anything else: odd names, lists and objects, too many or too long, a field of
/// read_node_facts() of another type.
nlohmann::json checked_facts(const nlohmann::json& facts);

/// Readings of a telemetry message by metric. Throws Error(protocol) on odd names and on values that are no
/// numbers, or too many.
std::map<std::string, double> checked_readings(const nlohmann::json& values);

/// How a process ended, as a shell has it: 0 to 255. Throws Error(protocol) on anything else.
int checked_exit_status(std::int64_t said);

}  // namespace virtrain::harness
