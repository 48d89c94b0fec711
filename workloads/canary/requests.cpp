#include "workloads/canary/requests.h"

#include <algorithm>
#include <map>

#include "common/error.h"

namespace virtrain::canary {
namespace {

using nlohmann::json;

constexpr std::size_t most_findings = 8;
constexpr std::size_t most_answers = 20;
constexpr std::size_t most_ports = 4;  ///< of each scan and kind of answer, in the report
constexpr std::size_t most_failures = 4;
constexpr std::size_t most_functions = 16;
constexpr std::size_t most_path_bytes = 160;

/// Turns every fault of a request into one kind of failure, whatever the library calls it.
template <typename Read>
auto checked(const char* what, Read&& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw Error(std::string("read the request to ") + what, ErrorCode::bad_input, error.what());
  }
}

std::vector<Canary> canaries_of(const json& request) {
  std::vector<Canary> canaries;
  for (const auto& [name, text] : request.at("canaries").items()) {
    canaries.push_back({name, text.get<std::string>()});
    if (!is_canary_text(canaries.back().text)) {
      throw Error("read the request", ErrorCode::bad_input, "'" + name + "' is not a canary");
    }
  }
  return canaries;
}

Target target_of(const json& item) {
  static const std::map<std::string, Target::Kind> kinds{{"tcp4", Target::Kind::tcp4},
                                                         {"tcp6", Target::Kind::tcp6},
                                                         {"vsock", Target::Kind::vsock},
                                                         {"arp", Target::Kind::arp},
                                                         {"ping6", Target::Kind::ping6}};
  const auto kind = kinds.find(item.at("kind").get<std::string>());
  if (kind == kinds.end()) {
    throw Error("read the request to reach", ErrorCode::bad_input, "unknown kind of target");
  }
  return {kind->second, item.at("name"), item.value("address", ""), item.value("port", 0U),
          item.value("cid", 0U)};
}

}  // namespace

SearchRequest search_request(const json& request) {
  return checked("search", [&] {
    SearchRequest out{canaries_of(request), {}, {}};
    for (const auto& root : request.at("roots")) { out.roots.emplace_back(root.get<std::string>()); }
    out.limits.bytes = request.value("bytes", out.limits.bytes);
    out.limits.time = std::chrono::seconds(request.value("seconds", out.limits.time.count()));
    return out;
  });
}

FillRequest fill_request(const json& request) {
  return checked("fill", [&] {
    FillRequest out{{}, request.at("canary").get<std::string>()};
    for (const auto& path : request.at("paths")) { out.paths.emplace_back(path.get<std::string>()); }
    out.time = std::chrono::seconds(request.value("seconds", out.time.count()));
    return out;
  });
}

std::vector<std::string> memory_request(const json& request) {
  return checked("find memory", [&] {
    auto addresses = request.at("functions").get<std::vector<std::string>>();
    for (const auto& address : addresses) {
      if (address.empty() || address.find('/') != std::string::npos) {
        throw Error("read the request to find memory", ErrorCode::bad_input, "not a PCI address");
      }
    }
    return addresses;
  });
}

std::vector<std::string> functions_request(const json& request) {
  return checked("see functions", [&] { return request.at("known").get<std::vector<std::string>>(); });
}

PeerRequest peer_request(const json& request) {
  return checked("read by a device", [&] {
    PeerRequest out{canaries_of(request), request.at("control"), {}, {}};
    for (const auto& path : request.at("own")) { out.own.emplace_back(path.get<std::string>()); }
    for (const auto& range : request.at("ranges")) {
      out.ranges.push_back({range.at("name"), range.at("address"), range.at("bytes")});
    }
    out.time = std::chrono::seconds(request.value("seconds", out.time.count()));
    return out;
  });
}

ListenRequest listen_request(const json& request) {
  return checked("listen", [&] {
    ListenRequest out{request.at("address"),    request.value("alias", ""), request.at("ports"),
                      request.at("vsock_port"), request.at("canary"),       {}};
    out.time = std::chrono::seconds(request.value("seconds", 120));
    return out;
  });
}

ReachRequest reach_request(const json& request) {
  return checked("reach", [&] {
    ReachRequest out{request.at("address"), "", {}, canaries_of(request), {}};
    out.source = request.value("source", out.address);
    for (const auto& item : request.at("targets")) { out.targets.push_back(target_of(item)); }
    for (const auto& item : request.value("scans", json::array())) {
      out.scans.push_back({item.at("name"), item.at("address"), parse_mac(item.at("mac")),
                           item.value("ports", std::vector<std::uint16_t>())});
    }
    out.time = std::chrono::milliseconds(request.value("milliseconds", 4000));
    return out;
  });
}

json to_json(const SearchReport& report) {
  auto found = json::array();
  for (const auto& one : report.found) {
    if (found.size() == most_findings) { break; }
    found.push_back({{"canary", one.canary},
                     {"path", one.path.string().substr(0, most_path_bytes)},
                     {"count", one.count},
                     {"first", one.first},
                     {"last", one.last}});
  }
  return {{"scanned_bytes", report.scanned_bytes},
          {"total_bytes", report.total_bytes},
          {"files", report.files},
          {"unreadable", report.unreadable},
          {"found", found},
          {"findings", report.found.size()}};
}

namespace {

json to_json(const ScannedPorts& scan) {
  const auto first = [](const std::vector<std::uint16_t>& ports) {
    return std::vector<std::uint16_t>(
        ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(std::min(ports.size(), most_ports)));
  };
  return {{"target", scan.name},      {"scanned", scan.scanned},
          {"total", scan.total},      {"answered", scan.open.size() + scan.closed.size()},
          {"open", first(scan.open)}, {"closed", first(scan.closed)}};
}

}  // namespace

json to_json(const ReachReport& report) {
  auto answers = json::array();
  for (const auto& one : report.answers) {
    if (answers.size() == most_answers) { break; }
    answers.push_back({{"target", one.target}, {"how", one.how}, {"who", one.who}, {"canary", one.canary}});
  }
  auto failed = report.failed;
  failed.resize(std::min(failed.size(), most_failures));
  auto scans = json::array();
  for (const auto& one : report.scans) { scans.push_back(to_json(one)); }
  return {{"answers", answers}, {"heard", report.heard}, {"failed", failed}, {"scans", scans}};
}

json to_json(const BusRead& read) {
  return {{"name", read.name.substr(0, most_path_bytes)},
          {"scanned", read.scanned},
          {"total", read.total},
          {"found", read.found},
          {"refused", read.refused.substr(0, most_path_bytes)}};
}

json to_json(const SeenFunctions& seen) {
  auto others = json::array();
  for (const auto& one : seen.others) {
    if (others.size() == most_functions) { break; }
    others.push_back({{"address", one.address}, {"model", one.model}, {"opened", one.opened}});
  }
  const auto opened = std::count_if(seen.others.begin(), seen.others.end(),
                                    [](const auto& one) { return !one.opened.empty(); });
  return {{"total", seen.total},
          {"others", seen.others.size()},
          {"opened", opened},
          {"control", seen.control},
          {"functions", others}};
}

}  // namespace virtrain::canary
