#include "harness/job/rank_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr const char* addressing = "find addresses for ranks";

std::string cidr_of(const MachineNetwork& one) {
  in_addr address{};
  ::inet_pton(AF_INET, one.address.c_str(), &address);
  const auto mask = one.prefix == 0 ? 0U : ~0U << (32 - one.prefix);
  const auto lowest = ntohl(address.s_addr) & mask;
  return fmt::format("{}.{}.{}.{}/{}", lowest >> 24, lowest >> 16 & 0xff, lowest >> 8 & 0xff, lowest & 0xff,
                     one.prefix);
}

RankAddress as_rank_address(const MachineNetwork& one) {
  return {one.interface, one.address, cidr_of(one)};
}

std::string networks_text(const MachineReport& report) {
  std::vector<std::string> all;
  for (const auto& one : report.networks) { all.push_back(one.interface + " " + one.address); }
  return all.empty() ? "none" : join(all, ", ");
}

/// The machine's address in that network; with `address`, that one.
std::optional<RankAddress> address_in(const AddressedMachine& machine, const std::string& network) {
  for (const auto& one : machine.report.networks) {
    if (!machine.address.empty() && one.address != machine.address) { continue; }
    if (network.empty() || cidr_of(one) == network) { return as_rank_address(one); }
  }
  return std::nullopt;
}

}  // namespace

std::vector<RankAddress> rank_addresses(const std::vector<AddressedMachine>& machines) {
  bool all_say = true;
  std::vector<RankAddress> said;
  for (const auto& machine : machines) {
    all_say = all_say && !machine.address.empty();
    const auto own = address_in(machine, "");
    if (!machine.address.empty() && !own) {
      throw Error(addressing, ErrorCode::trial_failed,
                  fmt::format("{} has no address {} (it has: {})", machine.name, machine.address,
                              networks_text(machine.report)));
    }
    said.push_back(own.value_or(RankAddress()));
  }
  if (all_say || machines.size() < 2) { return said; }
  for (const auto& candidate : machines.front().report.networks) {
    std::vector<RankAddress> found;
    std::set<std::string> addresses;
    for (const auto& machine : machines) {
      const auto own = address_in(machine, cidr_of(candidate));
      // Bridges that containers hang at have one address on all machines.
      if (own && addresses.insert(own->address).second) { found.push_back(*own); }
    }
    if (found.size() == machines.size()) { return found; }
  }
  std::vector<std::string> all;
  for (const auto& machine : machines) {
    all.push_back(machine.name + " has " + networks_text(machine.report));
  }
  throw Error(
      addressing, ErrorCode::trial_failed,
      fmt::format("the machines share no network: {} (give each an address: in the arm)", join(all, "; ")));
}

}  // namespace virtrain::harness
