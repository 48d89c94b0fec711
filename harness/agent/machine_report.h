#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/agent/messages.h"
#include "vmctl/api/pci.h"

namespace virtrain::harness {

/// Hardware and networks of this machine as they look to a process in it; what it does not show is absent.
message::Machine machine_report();

/// A node's PCI functions as its agent reports them, JSON: what decides where a guest's devices are. The rest
/// of a PciFunction is not in it.
std::string pci_report(const std::vector<vmctl::PciFunction>& functions);

/// The same, read by the coordinator from a guest that is not trusted. Throws Error(protocol).
std::vector<vmctl::PciFunction> parse_pci_report(const std::string& text);

/// CPU time since boot summed over `cores` (all cores if empty), memory and network counters, from /proc
/// under `root`: cpu_{user,system,idle,iowait,steal}_seconds, memory_{total,available}_bytes,
/// network_{rx,tx}_bytes (all but lo).
nlohmann::json read_telemetry(const std::filesystem::path& root, const std::vector<int>& cores);

/// Facts that identify a node for the comparability guard: hostname, boot_id, kernel, cpu_model, cpu_flags,
/// microcode, mitigations, memory_total_bytes, cpus (allowed list), as read inside it.
nlohmann::json read_node_facts();

}  // namespace virtrain::harness
