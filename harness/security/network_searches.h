#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/security/canary_tool.h"
#include "vmctl/api/evidence.h"

namespace virtrain::harness {

struct LiveNode;

using vmctl::HostAddresses;
/// So many of each are tried, and the share is said.
inline constexpr std::size_t most_host_ipv4 = 1024, most_host_link_local = 64;

inline constexpr const char* host_addresses_search = "host_addresses";
/// network_tcp, network_ipv6, network_arp, host_addresses, vsock.
std::vector<std::string> network_search_names();

/// Targets that the looking tenant tries to reach, and the meaning of their answers: pure, but for the nodes
/// that it pairs with listeners. The other node of the looking tenant is the control of all but vsock.
class NetworkSearches {
 public:
  struct Listener {
    canary::ListenRequest request;
    canary::Listening said;
  };

  NetworkSearches(HostAddresses host, const std::string& looking_address, const std::string& peer_address);

  /// One for each node, to be started before request() is sent.
  std::vector<std::pair<LiveNode*, Listener&>> listeners(LiveNode& owner, LiveNode& peer, LiveNode& looking);
  canary::ReachRequest request(bool own_kernel);
  /// By name, in the order of network_search_names().
  std::vector<std::pair<std::string, LeakEvidence>> judge(const canary::Reached& reach,
                                                          bool own_kernel) const;

 private:
  LeakEvidence judge_tcp(const canary::Reached& reach) const;
  LeakEvidence judge_ipv6(const canary::Reached& reach) const;
  LeakEvidence judge_arp(const canary::Reached& reach) const;
  LeakEvidence judge_host(const canary::Reached& reach) const;
  LeakEvidence judge_vsock(const canary::Reached& reach, bool own_kernel) const;
  /// Answers whose target is of that group.
  static std::vector<canary::Reply> of_group(const canary::Reached& reach, const std::string& group);
  double tried(const std::string& group) const;
  /// Adds the scan with that name: its targets, and leaks that no connection has shown yet.
  static void add_scan(const canary::Reached& reach, const std::string& name, const std::string& address,
                       LeakEvidence& evidence);
  /// Whether a scan has found a port of the peer's that is open, by the same means.
  static bool scan_found_peer(const canary::Reached& reach, const std::string& name);

  HostAddresses host_;
  std::string looking_address_, peer_address_;
  Canary owners_, peers_, own_;
  Listener owner_, peer_, looking_;
  std::vector<canary::Target> targets_;
};

}  // namespace virtrain::harness
