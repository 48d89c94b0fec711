#pragma once

#include <string>
#include <vector>

#include "harness/agent/client/agent_reports.h"

namespace virtrain::harness {

/// A machine that exists already, and the address at which its arm says that others reach it; empty: any.
struct AddressedMachine {
  std::string name;
  MachineReport report;
  std::string address = {};
};

/// An address that others reach a machine at, with its interface and its network, "192.0.2.0/24". Empty for a
/// machine that needs none and has none.
struct RankAddress {
  std::string interface, address, network;
};

/// For ranks on these machines: what the arm says, else the first network of the first machine that all of
/// them are in, each with an address of its own. Pure. Throws Error(trial_failed) where a machine has no such
/// address, or several share no network.
std::vector<RankAddress> rank_addresses(const std::vector<AddressedMachine>& machines);

}  // namespace virtrain::harness
