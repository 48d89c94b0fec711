#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/described.h"

// virtrain-canary gets a request in a node and answers it: JSON, one object each. Requests come on standard
// input, so that no canary is in a command line, which other users may see. Answers are lines of the workload
// protocol; a node may make up whatever it likes in them. contradiction() and misfit() name a field whose
// value the others rule out; null: there is none.

namespace virtrain::canary {

/// Texts of canaries by their names.
using CanaryTexts = std::map<std::string, std::string>;

/// Bytes of a text in an answer that are read.
inline constexpr std::size_t most_text_bytes = 200;

/// A canary that a search has found.
struct Finding {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, canary, {}, .text = "Its name", .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, path, {}, .text = "File, disk or memory that holds it",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::uint64_t, count, 0, .text = "Times that it was found there");
  VIRTRAIN_FIELD(std::uint64_t, first, 0, .text = "Offset of the first copy in bytes");
  VIRTRAIN_FIELD(std::uint64_t, last, 0, .text = "Offset of the last copy in bytes");
};

struct Searched {
  static constexpr const char* record = "searched";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint64_t, scanned_bytes, 0, .text = "Bytes that were searched");
  VIRTRAIN_FIELD(std::uint64_t, total_bytes, 0, .text = "Bytes that were to be searched");
  VIRTRAIN_FIELD(std::vector<Finding>, found, {}, .text = "The first findings", .most_items = 8);
  VIRTRAIN_FIELD(std::uint64_t, findings, 0, .text = "Number of all findings", .may_lack = true);
  VIRTRAIN_FIELD(std::uint64_t, files, 0, .text = "Files that were searched", .may_lack = true);
  VIRTRAIN_FIELD(std::uint64_t, unreadable, 0, .text = "Files that could not be read", .may_lack = true);

  const char* contradiction() const { return scanned_bytes > total_bytes ? "scanned_bytes" : nullptr; }
  bool has(const std::string& canary) const {
    return std::any_of(found.begin(), found.end(), [&](const auto& one) { return one.canary == canary; });
  }
};

/// Files, disks and device memory are searched for canaries.
struct SearchRequest {
  static constexpr const char* verb = "search";
  using Answer = Searched;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(CanaryTexts, canaries, {}, .text = "What is searched for");
  VIRTRAIN_FIELD(std::vector<std::string>, roots, {}, .text = "Folders, files, disks and GPUs");
  VIRTRAIN_FIELD(std::uint64_t, bytes, std::uint64_t{16} << 30, .text = "Most bytes that are searched",
                 .may_lack = true);
  VIRTRAIN_FIELD(std::int64_t, seconds, 120, .text = "Longest time for it", .least = 0, .most = 86'400,
                 .may_lack = true);
};

struct FoundMemory {
  static constexpr const char* record = "memory";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<std::string>, paths, {}, .text = "Disks, memory regions and GPUs");
  VIRTRAIN_FIELD(bool, holds_data, false, .text = "Whether a disk has more than zeros and canaries");
  VIRTRAIN_FIELD(std::string, lacks, {}, .text = "Why it cannot reach the memory of a GPU",
                 .most_bytes = most_text_bytes);
};

/// Where the node sees the memory of its PCI functions.
struct MemoryRequest {
  static constexpr const char* verb = "memory";
  using Answer = FoundMemory;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<std::string>, functions, {}, .text = "Their PCI addresses");

  const char* contradiction() const {
    const auto is_path = [](const auto& one) { return one.empty() || one.find('/') != std::string::npos; };
    return std::any_of(functions.begin(), functions.end(), is_path) ? "functions" : nullptr;
  }
};

/// Memory that a device is to read.
struct BusRange {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Name in the answer");
  VIRTRAIN_FIELD(std::uint64_t, address, 0, .text = "Bus address");
  VIRTRAIN_FIELD(std::uint64_t, bytes, 0, .text = "Size");
};

/// The result of reading one range.
struct BusRead {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint64_t, scanned, 0, .text = "Bytes that it read");
  VIRTRAIN_FIELD(std::uint64_t, total, 0, .text = "Bytes of the range");
  VIRTRAIN_FIELD(std::vector<std::string>, found, {}, .text = "Names of canaries");
  VIRTRAIN_FIELD(std::string, refused, {},
                 .text = "Why it could not be told to read some page, which is not scanned",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Name of the range", .may_lack = true,
                 .most_bytes = most_text_bytes);

  const char* contradiction() const { return scanned > total ? "scanned" : nullptr; }
};

struct PeerReads {
  static constexpr const char* record = "peer";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<BusRead>, memory, {}, .text = "A page of the program's own: a control");
  VIRTRAIN_FIELD(std::vector<BusRead>, devices, {}, .text = "The node's other devices: a control");
  VIRTRAIN_FIELD(std::vector<BusRead>, foreign, {}, .text = "The ranges that were asked for, in their order");
  VIRTRAIN_FIELD(std::optional<std::string>, lacks, {}, .text = "Why no device of the node can read anything",
                 .most_bytes = most_text_bytes);
};

/// A device of the node reads memory by itself.
struct PeerRequest {
  static constexpr const char* verb = "peer";
  using Answer = PeerReads;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(CanaryTexts, canaries, {}, .text = "What is searched for");
  VIRTRAIN_FIELD(std::string, control, {}, .text = "Name of the canary that the program's own page gets");
  VIRTRAIN_FIELD(std::vector<std::string>, own, {},
                 .text = "Memory regions of the node's other devices, which hold the control");
  VIRTRAIN_FIELD(std::vector<BusRange>, ranges, {}, .text = "Memory that is not the node's");
  VIRTRAIN_FIELD(std::int64_t, seconds, 120, .text = "Longest time for each kind of memory", .least = 0,
                 .most = 86'400, .may_lack = true);

  const char* misfit(const PeerReads& said) const {
    return said.lacks || said.foreign.size() == ranges.size() ? nullptr : "foreign";
  }
};

/// A PCI function that a node sees.
struct SeenFunction {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {}, .text = "PCI address: 0000:17:00.0",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, model, {}, .text = "Vendor and device: 0x10de:0x20f1",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::vector<std::string>, opened, {},
                 .text = "Memory regions that could be opened for reading and writing: resource0");
};

struct Functions {
  static constexpr const char* record = "functions";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint64_t, total, 0, .text = "Functions, those of known models included");
  VIRTRAIN_FIELD(std::uint64_t, others, 0, .text = "Functions of other models");
  VIRTRAIN_FIELD(std::uint64_t, opened, 0, .text = "Those of which a region could be opened");
  VIRTRAIN_FIELD(bool, control, false,
                 .text = "Whether a function planted in a tree of files was seen, and its region opened");
  VIRTRAIN_FIELD(std::vector<SeenFunction>, functions, {},
                 .text = "Functions of other models: those with an opened region first, then by address",
                 .most_items = 16);

  const char* contradiction() const { return others > total || opened > others ? "others" : nullptr; }
};

/// Which PCI functions the node sees, and whose memory it may write to.
struct FunctionsRequest {
  static constexpr const char* verb = "functions";
  using Answer = Functions;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<std::string>, known, {},
                 .text = "Models that are not counted as others, by their beginnings: 0x1af4:0x10");
};

struct Filled {
  static constexpr const char* record = "filled";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint64_t, bytes, 0, .text = "Bytes that hold the canary now");
  VIRTRAIN_FIELD(std::uint64_t, total, 0, .text = "Bytes that there are");
  VIRTRAIN_FIELD(bool, read_back, false,
                 .text =
                     "For a GPU, whose driver may clear what a process gives back: the canary was found "
                     "everywhere before that");

  const char* contradiction() const { return bytes > total ? "bytes" : nullptr; }
};

/// Disks and device memory are filled with a canary.
struct FillRequest {
  static constexpr const char* verb = "fill";
  using Answer = Filled;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<std::string>, paths, {}, .text = "Files, disks, memory regions and GPUs");
  VIRTRAIN_FIELD(std::string, canary, {}, .text = "Text of the canary");
  VIRTRAIN_FIELD(std::int64_t, seconds, 120, .text = "Longest time for each of them", .least = 0,
                 .most = 86'400, .may_lack = true);
};

struct Listening {
  static constexpr const char* record = "listening";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, mac, {}, .text = "Of the node's network device", .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, link_local, {}, .text = "IPv6 address; empty: the node has no IPv6 there",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(bool, vsock, false, .text = "Whether the kernel has vsock, and the port was free");
};

/// The node greets with a canary whoever connects, and broadcasts it, in the background.
struct ListenRequest {
  static constexpr const char* verb = "listen";
  using Answer = Listening;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {}, .text = "Of the node in its tenant's network");
  VIRTRAIN_FIELD(std::string, alias, {}, .text = "One more, which no other tenant has; empty: none",
                 .may_lack = true);
  VIRTRAIN_FIELD(std::vector<std::uint16_t>, ports, {}, .text = "TCP ports, on all addresses");
  VIRTRAIN_FIELD(std::uint32_t, vsock_port, 0, .text = "Port of vsock");
  VIRTRAIN_FIELD(std::string, canary, {}, .text = "Text of the canary");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, seconds, {}, .text = "How long, 120 if absent", .least = 0,
                 .most = 86'400);
};

/// How a node tries to reach something.
VIRTRAIN_ENUM_CLASS(TargetKind, tcp4, tcp6, vsock, arp, ping6)

/// Something that a node tries to reach.
struct Target {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(TargetKind, kind, TargetKind::tcp4, .text = "How");
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Name in the answer; it begins with a group: host/");
  VIRTRAIN_FIELD(std::string, address, {}, .text = "An IP address; with ping6 ff02::1, all on the link",
                 .may_lack = true);
  VIRTRAIN_FIELD(std::uint32_t, port, 0, .text = "Of TCP or vsock", .may_lack = true);
  VIRTRAIN_FIELD(std::uint32_t, cid, 0, .text = "Of vsock", .may_lack = true);
};

/// A node whose TCP ports are asked one by one.
struct ScanTarget {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Name in the answer");
  VIRTRAIN_FIELD(std::string, address, {}, .text = "IPv4, or IPv6 link-local");
  VIRTRAIN_FIELD(std::string, mac, {}, .text = "Of its network device, to which the frames go");
  VIRTRAIN_FIELD(std::vector<std::uint16_t>, ports, {}, .text = "None: all, 1 to 65535", .may_lack = true);
};

/// Somebody who answered: a connection, a refusal, a reply.
struct Reply {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, target, {}, .text = "Name of the target", .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, how, {}, .text = "connected, refused or replied",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, who, {}, .text = "A MAC or link-local address; empty for connections",
                 .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::string, canary, {},
                 .text = "Name of the one that greeted; empty: none of those asked for",
                 .most_bytes = most_text_bytes);
};

/// Answers of one node's ports.
struct ScannedPorts {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, target, {}, .text = "Name of the target", .most_bytes = most_text_bytes);
  VIRTRAIN_FIELD(std::uint64_t, scanned, 0, .text = "Ports that were asked at least once");
  VIRTRAIN_FIELD(std::uint64_t, total, 0, .text = "Ports that were to be asked");
  VIRTRAIN_FIELD(std::uint64_t, answered, 0, .text = "Ports that accept or refuse connections");
  VIRTRAIN_FIELD(std::vector<std::uint16_t>, open, {}, .text = "The first with a listener", .most_items = 4);
  VIRTRAIN_FIELD(std::vector<std::uint16_t>, closed, {}, .text = "The first that refuse", .most_items = 4);

  const char* contradiction() const { return scanned > total ? "scanned" : nullptr; }
};

struct Reached {
  static constexpr const char* record = "reached";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<Reply>, answers, {}, .text = "The first answers", .most_items = 20);
  VIRTRAIN_FIELD(std::vector<std::string>, heard, {},
                 .text = "Names of canaries in frames that came by themselves");
  VIRTRAIN_FIELD(std::vector<std::string>, failed, {},
                 .text = "The first targets that could not be tried, and why", .most_items = 4);
  VIRTRAIN_FIELD(std::vector<ScannedPorts>, scans, {}, .text = "Each scan that was asked for");
};

/// The node tries all targets at the same time, scans ports and listens for broadcasts all the while.
struct ReachRequest {
  static constexpr const char* verb = "reach";
  using Answer = Reached;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {}, .text = "Of the node in its tenant's network");
  // A node with the same address as ours would drop what comes from it.
  VIRTRAIN_FIELD(std::string, source, {},
                 .text = "Address that IPv4 is asked from, which no other tenant has");
  VIRTRAIN_FIELD(std::vector<Target>, targets, {}, .text = "What it tries to reach");
  VIRTRAIN_FIELD(CanaryTexts, canaries, {}, .text = "What listeners greet with");
  VIRTRAIN_FIELD(std::vector<ScanTarget>, scans, {}, .text = "Whose ports it asks", .may_lack = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, milliseconds, {},
                 .text = "How long it tries, 4000 if absent; scans may take longer", .least = 0,
                 .most = 86'400'000);
};

}  // namespace virtrain::canary
