#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <vector>

namespace virtrain::harness {

/// CPU time since boot summed over `cores` (all cores if empty), memory and network counters, from /proc
/// under `root`: cpu_{user,system,idle,iowait,steal}_seconds, memory_{total,available}_bytes,
/// network_{rx,tx}_bytes (all but lo).
nlohmann::json read_telemetry(const std::filesystem::path& root, const std::vector<int>& cores);

/// Facts that identify a node for the comparability guard: hostname, boot_id, kernel, cpu_model, cpu_flags,
/// microcode, mitigations, memory_total_bytes, cpus (allowed list), as read inside it.
nlohmann::json read_node_facts();

}  // namespace virtrain::harness
