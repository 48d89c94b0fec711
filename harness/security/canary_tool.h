#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/canary.h"
#include "harness/security/evidence.h"

// Requests to virtrain-canary in a node, and its answers. A node's answers are untrusted: read strictly, made
// safe to show, and bounded.

namespace virtrain::harness {

struct NodeFinding {
  std::string canary;  ///< its name
  std::string path;
  std::uint64_t count = 0, first = 0, last = 0;
};
struct NodeSearch {
  double scanned_bytes = 0, total_bytes = 0;
  std::vector<NodeFinding> found;

  bool has(const std::string& canary) const;
};

/// A node's listener, which greets with its canary.
struct NodeListener {
  std::string mac;
  std::string link_local;  ///< empty: the node has no IPv6 there
  bool vsock = false;
};

struct NodeAnswer {
  std::string target, how, who, canary;
};
/// TCP ports of one node that were asked one by one.
struct NodeScan {
  std::string target;
  double scanned = 0, total = 0;
  std::uint64_t answered = 0;               ///< that accept or refuse connections
  std::vector<std::uint64_t> open, closed;  ///< the first of them
};
struct NodeReach {
  std::vector<NodeAnswer> answers;
  std::vector<std::string> heard;   ///< names of canaries
  std::vector<std::string> failed;  ///< targets that could not be tried, and why
  std::vector<NodeScan> scans = {};
};

/// Where a node sees a device's memory.
struct NodeMemory {
  std::vector<std::string> paths;
  bool holds_data = false;  ///< a disk, and not only zeros and canaries
  std::string lacks = {};   ///< why it cannot reach the memory of a GPU
};

/// How much of a device's memory a node has filled.
struct NodeFill {
  double bytes = 0, total_bytes = 0;
  bool read_back = false;  ///< of a GPU, whose driver may clear what a process gives back: found at once
};

/// PCI functions that a node sees beside those of known models.
struct NodeFunctions {
  struct One {
    std::string address, model;
    std::vector<std::string> opened;  ///< memory regions that it may write to
  };
  std::uint64_t total = 0;               ///< known ones too
  std::uint64_t others = 0, opened = 0;  ///< how many, and of how many a region could be opened
  bool control = false;                  ///< one that was planted was seen and opened
  std::vector<One> functions = {};  ///< the first of the others, those that could be opened before the rest
};

/// Memory that a device of a node is to read by itself, and what it has read of it.
struct PeerRange {
  std::string name;
  std::uint64_t address = 0, bytes = 0;
  bool is_of_device = false;
};
struct PeerRead {
  double scanned_bytes = 0, total_bytes = 0;
  std::vector<std::string> found;  ///< names of canaries
  std::string refused = {};        ///< why the device could not be told to read all that was not scanned
};
struct NodePeer {
  std::vector<PeerRead> memory, devices;  ///< the node's own: controls
  std::vector<PeerRead> foreign;          ///< of each range that was asked for, in their order
};

/// Something to be reached. Its name begins with a group, "host/…", by which answers are told apart.
struct ReachTarget {
  std::string kind;  ///< tcp4, tcp6, vsock, arp, ping6
  std::string name;
  std::string address = {};
  unsigned port = 0, cid = 0;
};

/// Ports of a node's to be asked in frames to its own MAC; none: all.
struct ScanTarget {
  std::string name, address, mac;
  std::vector<int> ports = {};
};

nlohmann::json search_request(const std::vector<Canary>& canaries, const std::vector<std::string>& roots,
                              std::uint64_t bytes, std::int64_t seconds);
nlohmann::json listen_request(const std::string& address, const std::string& alias,
                              const std::vector<int>& ports, unsigned vsock_port, const Canary& canary);
nlohmann::json reach_request(const std::string& address, const std::string& source,
                             const std::vector<ReachTarget>& targets, const std::vector<Canary>& canaries,
                             const std::vector<ScanTarget>& scans);

nlohmann::json memory_request(const std::vector<std::string>& functions);
/// Models that are no others': beginnings of "0x1af4:0x1041".
nlohmann::json functions_request(const std::vector<std::string>& known);
nlohmann::json fill_request(const std::vector<std::string>& paths, const Canary& canary,
                            std::int64_t seconds);

/// `own`: memory regions of other devices of the node, which hold the first canary.
nlohmann::json peer_request(const std::vector<Canary>& canaries, const std::vector<std::string>& own,
                            const std::vector<PeerRange>& ranges, std::int64_t seconds);

/// The answer to each. Throw Error(trial_failed) for what is none.
NodeSearch parse_search(const std::string& lines);
NodeListener parse_listener(const std::string& lines);
NodeReach parse_reach(const std::string& lines);
NodeFunctions parse_functions(const std::string& lines);
NodeMemory parse_memory(const std::string& lines);
NodeFill parse_fill(const std::string& lines);
NodePeer parse_peer(const std::string& lines, std::size_t ranges);

/// "/dev/vda, bytes 4096 to 8191, 2 times".
std::string words_of(const NodeFinding& finding);
/// Scanned and total bytes, the control, and as a leak each other canary that was found.
LeakEvidence evidence_of(const NodeSearch& search, const std::vector<std::string>& controls);

}  // namespace virtrain::harness
