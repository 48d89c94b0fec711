#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/model/virtualization.h"
#include "harness/agent/messages.h"

namespace virtrain::harness {

// An agent's reports come from a guest: they are checked here, when they are received, for everything that
// the database or a reader of it asks for later.

/// An agent's report on its node: the facts that the coordinator looks at, and all of them.
struct NodeReport {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, hostname, {}, .text = "Name of the node");
  VIRTRAIN_FIELD(std::optional<std::string>, kernel, {}, .text = "Release of its kernel");
  VIRTRAIN_FIELD(std::optional<std::string>, boot_id, {}, .text = "Identity of its kernel's start");
  VIRTRAIN_FIELD(std::optional<std::string>, cpus, {}, .text = "Cores that its processes may run on");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, memory_limit_bytes, {},
                 .text = "Memory that its processes may use", .least = 1, .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, nic_mac, {}, .text = "Address of eth0, where a NIC has it");
  VIRTRAIN_FIELD(std::optional<std::string>, nic_driver, {}, .text = "Driver of that NIC");
  std::map<std::string, std::string> facts = {};  ///< by name, numbers as JSON writes them
};

/// The report in a node's facts: text, or a finite number of at least 0; text is made safe to show. Throws
/// Error(protocol) on anything else: odd names, lists and objects, too many or too long, a field of
/// NodeReport of another type.
NodeReport checked_facts(const nlohmann::json& facts);

/// An interface of a machine with its IPv4 address.
struct MachineNetwork {
  std::string interface, address;
  int prefix = 0;
};

/// A report on a machine that exists already; what it did not say is empty.
struct MachineReport {
  std::string identity = {};
  std::optional<bool> is_guest = {};
  std::string hypervisor = {}, vendor = {}, product = {};
  std::vector<MachineNetwork> networks = {};
};

/// Throws Error(protocol) on networks that are none, and too many.
MachineReport checked_machine(const message::Machine& said);

/// The virtualization below a machine, by its own word, which its host was not asked for; nothing where it
/// does not say, or names a hypervisor that is none of ours.
std::optional<Virtualization> virtualization_of(const MachineReport& machine);

/// Readings of a telemetry message by metric. Throws Error(protocol) on odd names and on values that are no
/// numbers, or too many.
std::map<std::string, double> checked_readings(const nlohmann::json& values);

}  // namespace virtrain::harness
