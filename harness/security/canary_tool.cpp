#include "harness/security/canary_tool.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

constexpr JsonLimits canary_record_limits{.bytes = std::size_t{16} << 10, .depth = 8, .values = 2000};
constexpr std::size_t most_canary_text_bytes = 200;

Error odd_answer(const std::string& key) {
  return {"read what virtrain-canary says", ErrorCode::trial_failed, "its '" + key + "' is odd"};
}

const json& member(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) { throw odd_answer(key); }
  return *found;
}

std::string canary_text(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > most_canary_text_bytes) {
    throw odd_answer(key);
  }
  return printable(value.get_ref<const std::string&>());
}

std::uint64_t canary_number(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_number_unsigned()) { throw odd_answer(key); }
  return value.get<std::uint64_t>();
}

bool truth(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_boolean()) { throw odd_answer(key); }
  return value.get<bool>();
}

const json& list(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_array()) { throw odd_answer(key); }
  return value;
}

std::vector<std::string> canary_texts(const json& object, const char* key) {
  std::vector<std::string> all;
  for (const auto& one : list(object, key)) {
    if (!one.is_string()) { throw odd_answer(key); }
    all.push_back(printable(one.get<std::string>(), most_canary_text_bytes));
  }
  return all;
}

std::vector<std::uint64_t> port_numbers(const json& object, const char* key) {
  std::vector<std::uint64_t> all;
  for (const auto& one : list(object, key)) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > 65'535) { throw odd_answer(key); }
    all.push_back(one.get<std::uint64_t>());
  }
  return all;
}

/// The line of that record.
json record_of(const std::string& lines, const std::string& kind) {
  for (const auto& line : split(lines, '\n')) {
    auto record = parse_json_or_null(line, canary_record_limits);
    if (record.is_object() && record.value("record", json()) == kind) { return record; }
  }
  throw Error("read what virtrain-canary says", ErrorCode::trial_failed, "it has no record '" + kind + "'");
}

json canaries_json(const std::vector<Canary>& canaries) {
  auto out = json::object();
  for (const auto& one : canaries) { out[one.name] = one.text; }
  return out;
}

}  // namespace

json search_request(const std::vector<Canary>& canaries, const std::vector<std::string>& roots,
                    std::uint64_t bytes, std::int64_t seconds) {
  return {{"canaries", canaries_json(canaries)}, {"roots", roots}, {"bytes", bytes}, {"seconds", seconds}};
}

json listen_request(const std::string& address, const std::string& alias, const std::vector<int>& ports,
                    unsigned vsock_port, const Canary& canary) {
  return {{"address", address},
          {"alias", alias},
          {"ports", ports},
          {"vsock_port", vsock_port},
          {"canary", canary.text}};
}

json reach_request(const std::string& address, const std::string& source,
                   const std::vector<ReachTarget>& targets, const std::vector<Canary>& canaries,
                   const std::vector<ScanTarget>& scans) {
  auto items = json::array();
  for (const auto& one : targets) {
    items.push_back({{"kind", one.kind},
                     {"name", one.name},
                     {"address", one.address},
                     {"port", one.port},
                     {"cid", one.cid}});
  }
  auto scanned = json::array();
  for (const auto& one : scans) {
    scanned.push_back({{"name", one.name}, {"address", one.address}, {"mac", one.mac}, {"ports", one.ports}});
  }
  return {{"address", address},
          {"source", source},
          {"targets", items},
          {"canaries", canaries_json(canaries)},
          {"scans", scanned}};
}

json memory_request(const std::vector<std::string>& functions) {
  return {{"functions", functions}};
}

json functions_request(const std::vector<std::string>& known) {
  return {{"known", known}};
}

json fill_request(const std::vector<std::string>& paths, const Canary& canary, std::int64_t seconds) {
  return {{"paths", paths}, {"canary", canary.text}, {"seconds", seconds}};
}

json peer_request(const std::vector<Canary>& canaries, const std::vector<std::string>& own,
                  const std::vector<PeerRange>& ranges, std::int64_t seconds) {
  auto items = json::array();
  for (const auto& one : ranges) {
    items.push_back({{"name", one.name}, {"address", one.address}, {"bytes", one.bytes}});
  }
  return {{"canaries", canaries_json(canaries)},
          {"control", canaries.at(0).name},
          {"own", own},
          {"ranges", items},
          {"seconds", seconds}};
}

bool NodeSearch::has(const std::string& canary) const {
  return std::any_of(found.begin(), found.end(), [&](const auto& one) { return one.canary == canary; });
}

NodeSearch parse_search(const std::string& lines) {
  const auto record = record_of(lines, "searched");
  NodeSearch search;
  search.scanned_bytes = static_cast<double>(canary_number(record, "scanned_bytes"));
  search.total_bytes = static_cast<double>(canary_number(record, "total_bytes"));
  if (search.scanned_bytes > search.total_bytes) { throw odd_answer("scanned_bytes"); }
  for (const auto& one : list(record, "found")) {
    search.found.push_back({canary_text(one, "canary"), canary_text(one, "path"), canary_number(one, "count"),
                            canary_number(one, "first"), canary_number(one, "last")});
  }
  return search;
}

NodeListener parse_listener(const std::string& lines) {
  const auto record = record_of(lines, "listening");
  return {canary_text(record, "mac"), canary_text(record, "link_local"), truth(record, "vsock")};
}

NodeReach parse_reach(const std::string& lines) {
  const auto record = record_of(lines, "reached");
  NodeReach reach;
  for (const auto& one : list(record, "answers")) {
    reach.answers.push_back({canary_text(one, "target"), canary_text(one, "how"), canary_text(one, "who"),
                             canary_text(one, "canary")});
  }
  reach.heard = canary_texts(record, "heard");
  reach.failed = canary_texts(record, "failed");
  for (const auto& one : list(record, "scans")) {
    reach.scans.push_back({canary_text(one, "target"), static_cast<double>(canary_number(one, "scanned")),
                           static_cast<double>(canary_number(one, "total")), canary_number(one, "answered"),
                           port_numbers(one, "open"), port_numbers(one, "closed")});
    if (reach.scans.back().scanned > reach.scans.back().total) { throw odd_answer("scanned"); }
  }
  return reach;
}

NodeFunctions parse_functions(const std::string& lines) {
  const auto record = record_of(lines, "functions");
  NodeFunctions seen{canary_number(record, "total"),
                     canary_number(record, "others"),
                     canary_number(record, "opened"),
                     truth(record, "control"),
                     {}};
  if (seen.others > seen.total || seen.opened > seen.others) { throw odd_answer("others"); }
  for (const auto& one : list(record, "functions")) {
    seen.functions.push_back(
        {canary_text(one, "address"), canary_text(one, "model"), canary_texts(one, "opened")});
  }
  return seen;
}

NodeMemory parse_memory(const std::string& lines) {
  const auto record = record_of(lines, "memory");
  return {canary_texts(record, "paths"), truth(record, "holds_data"), canary_text(record, "lacks")};
}

NodeFill parse_fill(const std::string& lines) {
  const auto record = record_of(lines, "filled");
  const NodeFill fill{static_cast<double>(canary_number(record, "bytes")),
                      static_cast<double>(canary_number(record, "total")), truth(record, "read_back")};
  if (fill.bytes > fill.total_bytes) { throw odd_answer("bytes"); }
  return fill;
}

NodePeer parse_peer(const std::string& lines, std::size_t ranges) {
  const auto record = record_of(lines, "peer");
  const auto reads = [&](const char* key) {
    std::vector<PeerRead> all;
    for (const auto& one : list(record, key)) {
      all.push_back({static_cast<double>(canary_number(one, "scanned")),
                     static_cast<double>(canary_number(one, "total")), canary_texts(one, "found"),
                     canary_text(one, "refused")});
      if (all.back().scanned_bytes > all.back().total_bytes) { throw odd_answer("scanned"); }
    }
    return all;
  };
  NodePeer peer{reads("memory"), reads("devices"), reads("foreign")};
  if (peer.foreign.size() != ranges) { throw odd_answer("foreign"); }
  return peer;
}

std::string words_of(const NodeFinding& finding) {
  return finding.count <= 1 ? fmt::format("{}, byte {}", finding.path, finding.first)
                            : fmt::format("{}, {} times in bytes {} to {}", finding.path, finding.count,
                                          finding.first, finding.last);
}

LeakEvidence evidence_of(const NodeSearch& search, const std::vector<std::string>& controls) {
  LeakEvidence evidence;
  evidence.unit = "B";
  evidence.scanned = search.scanned_bytes;
  evidence.total = search.total_bytes;
  evidence.control =
      std::all_of(controls.begin(), controls.end(), [&](const auto& control) { return search.has(control); });
  for (const auto& one : search.found) {
    if (!contains(controls, one.canary)) { evidence.leaks.push_back(one.canary + " in " + words_of(one)); }
  }
  return evidence;
}

}  // namespace virtrain::harness
