#include "harness/security/network_searches.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/text/text.h"
#include "harness/trial/live_nodes.h"

namespace virtrain::harness {
namespace {

using canary::TargetKind;

/// Tenants may use the same addresses, so each of these has one more that is its own.
constexpr const char* owner_alias = "10.77.200.1";
constexpr const char* peer_alias = "10.77.200.2";
constexpr const char* looking_alias = "10.77.200.3";
/// Where both listen: the first port that Open MPI's TCP transport takes, and one that is given out at
/// random.
constexpr std::uint16_t first_mpi_port = 1024, free_port = 40'000;
const std::vector<std::uint16_t> known_ports{first_mpi_port, free_port};
/// Those that connections try, beside the scan of all ports: ssh, portmapper, libvirt, VNC, and more of
/// MPI's. A port without a listener refuses, which is an answer too.
constexpr std::uint16_t tried_ports[] = {22,   111,   first_mpi_port, 1025,   1026,   1027,   5900,
                                         5901, 16509, 16514,          32'768, 40'000, 49'152, 60'999};
constexpr unsigned owner_vsock_port = 47'101, peer_vsock_port = 47'102, looking_vsock_port = 47'103;
/// 1 is the kernel itself, 2 its host, and guests have those after it.
constexpr unsigned own_cid = 1, last_cid = 16;
constexpr unsigned host_ports[] = {22, 111, 16509};
constexpr const char* tcp_scan = "tcp-scan";
constexpr const char* tcp_control_scan = "tcp-scan-control";
constexpr const char* ipv6_scan = "ipv6-scan";
constexpr const char* ipv6_control_scan = "ipv6-scan-control";

std::string without_mask(const std::string& address) {
  return split(address, '/')[0];
}

}  // namespace

std::vector<std::string> network_search_names() {
  return {"network_tcp", "network_ipv6", "network_arp", host_addresses_search, "vsock"};
}

NetworkSearches::NetworkSearches(HostAddresses host, const std::string& looking_address,
                                 const std::string& peer_address)
    : host_(std::move(host)),
      looking_address_(without_mask(looking_address)),
      peer_address_(without_mask(peer_address)),
      owners_(make_canary("owner")),
      peers_(make_canary("peer")),
      own_(make_canary("own")) {}

std::vector<std::pair<LiveNode*, NetworkSearches::Listener&>> NetworkSearches::listeners(LiveNode& owner,
                                                                                         LiveNode& peer,
                                                                                         LiveNode& looking) {
  const auto owners_address = without_mask(owner.placement->address);
  owner_.request = {owners_address, owner_alias, known_ports, owner_vsock_port, owners_.text};
  peer_.request = {peer_address_, peer_alias, known_ports, peer_vsock_port, peers_.text};
  looking_.request = {looking_address_, looking_alias, {}, looking_vsock_port, own_.text};
  return {{&owner, owner_}, {&peer, peer_}, {&looking, looking_}};
}

canary::ReachRequest NetworkSearches::request(bool own_kernel) {
  targets_.clear();
  const auto add = [&](TargetKind kind, const std::string& group, const std::string& address,
                       unsigned port = 0, unsigned cid = 0) {
    const auto at = kind == TargetKind::vsock ? fmt::format("CID {} port {}", cid, port)
                    : port == 0               ? address
                                              : fmt::format("{} port {}", address, port);
    targets_.push_back({kind, group + "/" + at, address, port, cid});
  };
  add(TargetKind::tcp4, "tcp-control", peer_alias, first_mpi_port);
  add(TargetKind::arp, "arp-control", peer_alias);
  add(TargetKind::arp, "arp", owner_alias);
  for (const auto port : tried_ports) { add(TargetKind::tcp4, "tcp", owner_alias, port); }
  if (!peer_.said.link_local.empty()) {
    add(TargetKind::tcp6, "ipv6-control", peer_.said.link_local, first_mpi_port);
  }
  if (!owner_.said.link_local.empty()) {
    for (const auto port : tried_ports) { add(TargetKind::tcp6, "ipv6", owner_.said.link_local, port); }
  }
  add(TargetKind::ping6, "ping", "ff02::1");
  for (std::size_t i = 0; i < std::min(host_.ipv4.size(), most_host_ipv4); ++i) {
    add(TargetKind::arp, "host", host_.ipv4[i]);
  }
  for (std::size_t i = 0; i < std::min(host_.link_local.size(), most_host_link_local); ++i) {
    for (const unsigned port : host_ports) { add(TargetKind::tcp6, "host", host_.link_local[i], port); }
  }
  add(TargetKind::vsock, "vsock-control", "", looking_vsock_port, own_cid);
  // Beyond a slice's own kernel are those who emulate this host, which are nobody's business here.
  for (unsigned cid = own_cid; cid <= (own_kernel ? last_cid : own_cid); ++cid) {
    add(TargetKind::vsock, cid == own_cid ? "vsock-own" : "vsock", "", owner_vsock_port, cid);
  }
  std::vector<canary::ScanTarget> scans{{tcp_scan, owner_alias, owner_.said.mac},
                                        {tcp_control_scan, peer_alias, peer_.said.mac, known_ports}};
  if (!owner_.said.link_local.empty() && !peer_.said.link_local.empty()) {
    scans.push_back({ipv6_scan, owner_.said.link_local, owner_.said.mac});
    scans.push_back({ipv6_control_scan, peer_.said.link_local, peer_.said.mac, known_ports});
  }
  return {looking_address_, looking_alias, targets_, texts_of({owners_, peers_, own_}), std::move(scans)};
}

std::vector<canary::Reply> NetworkSearches::of_group(const canary::Reached& reach, const std::string& group) {
  std::vector<canary::Reply> found;
  for (const auto& one : reach.answers) {
    if (!one.target.starts_with(group + "/")) { continue; }
    found.push_back(one);
    found.back().target.erase(0, group.size() + 1);
  }
  return found;
}

double NetworkSearches::tried(const std::string& group) const {
  return static_cast<double>(std::count_if(targets_.begin(), targets_.end(), [&](const canary::Target& one) {
    return one.name.starts_with(group + "/");
  }));
}

std::vector<std::pair<std::string, LeakEvidence>> NetworkSearches::judge(const canary::Reached& reach,
                                                                         bool own_kernel) const {
  const auto names = network_search_names();
  return {{names[0], judge_tcp(reach)},
          {names[1], judge_ipv6(reach)},
          {names[2], judge_arp(reach)},
          {names[3], judge_host(reach)},
          {names[4], judge_vsock(reach, own_kernel)}};
}

namespace {

bool greeted_by(const std::vector<canary::Reply>& answers, const std::string& canary) {
  return std::any_of(answers.begin(), answers.end(), [&](const auto& one) { return one.canary == canary; });
}

void add_leaks(const std::vector<canary::Reply>& answers, LeakEvidence& evidence) {
  for (const auto& one : answers) {
    evidence.leaks.push_back(one.target + " " + one.how + (one.who.empty() ? "" : " from " + one.who));
  }
}

const canary::ScannedPorts* scan_named(const canary::Reached& reach, const std::string& name) {
  const auto found = std::find_if(reach.scans.begin(), reach.scans.end(),
                                  [&](const canary::ScannedPorts& one) { return one.target == name; });
  return found == reach.scans.end() ? nullptr : &*found;
}

}  // namespace

void NetworkSearches::add_scan(const canary::Reached& reach, const std::string& name,
                               const std::string& address, LeakEvidence& evidence) {
  const auto* scan = scan_named(reach, name);
  if (scan == nullptr) { return; }
  evidence.scanned = static_cast<double>(scan->scanned);
  evidence.total = static_cast<double>(scan->total);
  if (scan->answered == 0) { return; }
  const auto add = [&](const std::vector<std::uint16_t>& ports, const char* how) {
    for (const auto port : ports) {
      add_once(evidence.leaks, fmt::format("{} port {} {}", address, port, how));
    }
  };
  add(scan->open, "connected");
  add(scan->closed, "refused");
  evidence.limits = fmt::format("{} of {} ports answer", scan->answered, scan->total);
}

bool NetworkSearches::scan_found_peer(const canary::Reached& reach, const std::string& name) {
  const auto* scan = scan_named(reach, name);
  return scan != nullptr && contains(scan->open, first_mpi_port);
}

/// Two ways: connections, which greet with a canary, and a scan of all ports.
LeakEvidence NetworkSearches::judge_tcp(const canary::Reached& reach) const {
  LeakEvidence evidence;
  evidence.control =
      greeted_by(of_group(reach, "tcp-control"), peers_.name) && scan_found_peer(reach, tcp_control_scan);
  add_leaks(of_group(reach, "tcp"), evidence);
  add_scan(reach, tcp_scan, owner_alias, evidence);
  return evidence;
}

/// Everybody on a link answers a ping to all of it, so strangers show without being asked by address.
LeakEvidence NetworkSearches::judge_ipv6(const canary::Reached& reach) const {
  LeakEvidence evidence;
  if (owner_.said.link_local.empty() || peer_.said.link_local.empty()) {
    evidence.lacks = "the nodes have no IPv6 link-local address";
    return evidence;
  }
  const auto pings = of_group(reach, "ping");
  const auto peer_replied = std::any_of(pings.begin(), pings.end(),
                                        [&](const auto& one) { return one.who == peer_.said.link_local; });
  evidence.control = peer_replied && greeted_by(of_group(reach, "ipv6-control"), peers_.name) &&
                     scan_found_peer(reach, ipv6_control_scan);
  add_leaks(of_group(reach, "ipv6"), evidence);
  add_scan(reach, ipv6_scan, owner_.said.link_local, evidence);
  for (const auto& one : pings) {
    // A host's answer is told by the search of its addresses.
    if (one.who == peer_.said.link_local || contains(host_.link_local, one.who)) { continue; }
    evidence.leaks.push_back(
        fmt::format("{} on the tenant's link{}", one.who,
                    one.who == owner_.said.link_local ? ", which is the other tenant" : ""));
  }
  return evidence;
}

LeakEvidence NetworkSearches::judge_arp(const canary::Reached& reach) const {
  LeakEvidence evidence;
  const auto replies = of_group(reach, "arp-control");
  const auto is_peer = [&](const auto& one) { return one.who == peer_.said.mac; };
  evidence.control =
      std::any_of(replies.begin(), replies.end(), is_peer) && contains(reach.heard, peers_.name);
  evidence.scanned = evidence.total = 2;  // the question, and frames that come by themselves
  add_leaks(of_group(reach, "arp"), evidence);
  if (contains(reach.heard, owners_.name)) {
    evidence.leaks.emplace_back("the other tenant's broadcast frames are heard");
  }
  return evidence;
}

LeakEvidence NetworkSearches::judge_host(const canary::Reached& reach) const {
  LeakEvidence evidence;
  const auto replies = of_group(reach, "arp-control");
  const bool link = !peer_.said.link_local.empty();
  const auto pings = of_group(reach, "ping");
  const auto is_peer = [&](const auto& one) {
    return one.who == peer_.said.mac || one.who == peer_.said.link_local;
  };
  evidence.control = std::any_of(replies.begin(), replies.end(), is_peer) &&
                     (!link || std::any_of(pings.begin(), pings.end(), is_peer));
  const double ping = link ? 1 : 0;
  evidence.scanned = tried("host") + ping;
  evidence.total =
      static_cast<double>(host_.ipv4.size() + host_.link_local.size() * std::size(host_ports)) + ping;
  add_leaks(of_group(reach, "host"), evidence);
  for (const auto& one : pings) {
    if (contains(host_.link_local, one.who)) {
      evidence.leaks.push_back(one.who + " of the host answers on the tenant's link");
    }
  }
  return evidence;
}

LeakEvidence NetworkSearches::judge_vsock(const canary::Reached& reach, bool own_kernel) const {
  LeakEvidence evidence;
  if (!looking_.said.vsock) {
    evidence.lacks = own_kernel ? "the guest's kernel has no vsock, and the VM no such device"
                                : "this host's kernel has no vsock";
    return evidence;
  }
  evidence.control = greeted_by(of_group(reach, "vsock-control"), own_.name);
  if (evidence.control == false) {
    evidence.failure =
        "the control was not found: this kernel has vsock without its loopback (modprobe vsock_loopback)";
  }
  evidence.scanned = evidence.total = tried("vsock") + tried("vsock-own");
  for (const char* group : {"vsock", "vsock-own"}) {
    for (const auto& one : of_group(reach, group)) {
      const bool is_owner = one.canary == owners_.name;
      // A kernel's own answer on its own address is not somebody else's; the same holds for a slice and its
      // host.
      if (!is_owner && (!own_kernel || group == std::string("vsock-own"))) { continue; }
      evidence.leaks.push_back(one.target + " " + one.how + (is_owner ? ", by the other tenant" : ""));
    }
  }
  return evidence;
}

}  // namespace virtrain::harness
