#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/scenario/host_list.h"

namespace virtrain::harness {

/// Facts of one host, by name.
using HostFacts = std::map<std::string, std::string>;

/// A host that is not as the others of its run.
struct HostDifference {
  std::string field, host;
  std::string value;   ///< that the host says; empty: it does not say it
  std::string others;  ///< what most of the others say; of two hosts the first one's

  bool operator==(const HostDifference&) const = default;
};

/// The hosts that say something else than most of them, by field and host. What tells one host from another
/// and nothing of its speed (its name, its boot id) is no difference. Pure.
std::vector<HostDifference> differences_of(const ByHost<HostFacts>& facts);

/// "gpu-b: driver is 570.86, elsewhere 580.65"
std::string to_sentence(const HostDifference& difference);

/// Facts of an experiment over several hosts: what all say by its name, and the fields in which they differ
/// as `hosts_differ`: "driver, kernel".
HostFacts common_facts(const ByHost<HostFacts>& facts);

}  // namespace virtrain::harness
