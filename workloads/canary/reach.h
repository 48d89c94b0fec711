#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/text/canary.h"
#include "workloads/canary/interface.h"
#include "workloads/canary/port_scan.h"

namespace virtrain::canary {

/// Something that a node tries to reach.
struct Target {
  enum class Kind { tcp4, tcp6, vsock, arp, ping6 };
  Kind kind = Kind::tcp4;
  std::string name;     ///< what the report calls it
  std::string address;  ///< ping6: "ff02::1", all on the link
  unsigned port = 0;
  unsigned cid = 0;
};

/// Somebody who answered: a connection, a refusal, a reply.
struct Answer {
  std::string target;
  std::string how;     ///< "connected", "refused", "replied"
  std::string who;     ///< a MAC or link-local address; empty for connections
  std::string canary;  ///< the name of the one that greeted; empty: none of those asked for
};

struct ReachRequest {
  std::string address;  ///< of this node in its tenant's network
  /// From which it asks by IPv4: one that no other tenant has, or a node with the same address as ours would
  /// drop what comes from it.
  std::string source;
  std::vector<Target> targets;
  std::vector<Canary> canaries;  ///< that listeners greet with
  std::chrono::milliseconds time{4000};
  std::vector<ScanTarget> scans = {};
  std::chrono::milliseconds scan_time{40'000};  ///< at most, where the scans need more than `time`
};

struct ReachReport {
  std::vector<Answer> answers;
  std::vector<std::string> heard;   ///< names of canaries in frames that came by themselves
  std::vector<std::string> failed;  ///< targets that could not be tried, with the reason
  std::vector<ScannedPorts> scans = {};
};

/// Tries all targets at the same time, scans ports and listens for broadcast canaries all the while.
ReachReport try_to_reach(const ReachRequest& request);

}  // namespace virtrain::canary
