#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/file_search.h"
#include "workloads/canary/dma_engine.h"
#include "workloads/canary/functions.h"
#include "workloads/canary/listener.h"
#include "workloads/canary/reach.h"

// virtrain-canary takes requests on standard input and answers them: JSON, one object. A request carries the
// canaries, so that none is in a command line, which other users may see.

namespace virtrain::canary {

struct SearchRequest {
  std::vector<Canary> canaries;
  std::vector<std::filesystem::path> roots;
  SearchLimits limits;
};
struct FillRequest {
  std::vector<std::filesystem::path> paths;
  std::string canary;
  std::chrono::seconds time{120};  ///< for each of them
};

/// Pages that a device of the node reads by itself.
struct PeerRequest {
  std::vector<Canary> canaries;
  std::string control;                     ///< one of their names: planted in this process's own memory
  std::vector<std::filesystem::path> own;  ///< memory regions of other devices that the node has
  std::vector<BusRange> ranges;            ///< that are not the node's
  std::chrono::seconds time{120};
};

/// All throw Error(bad_input) for what is no such request.
SearchRequest search_request(const nlohmann::json& request);
FillRequest fill_request(const nlohmann::json& request);
/// The PCI functions whose memory is asked for.
std::vector<std::string> memory_request(const nlohmann::json& request);
/// The models that are no others', as see_functions() has them.
std::vector<std::string> functions_request(const nlohmann::json& request);
PeerRequest peer_request(const nlohmann::json& request);
ListenRequest listen_request(const nlohmann::json& request);
ReachRequest reach_request(const nlohmann::json& request);

/// At most so many findings, for a record has a limit; the others are counted.
nlohmann::json to_json(const SearchReport& report);
nlohmann::json to_json(const ReachReport& report);
nlohmann::json to_json(const SeenFunctions& seen);
nlohmann::json to_json(const BusRead& read);

}  // namespace virtrain::canary
