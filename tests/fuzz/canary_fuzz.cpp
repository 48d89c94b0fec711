// The lines of virtrain-canary in a node that lies: whatever it answers is refused with Error(trial_failed),
// or becomes evidence that the database takes and a terminal can show.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/error.h"
#include "common/text/printable.h"
#include "harness/security/canary_tool.h"
#include "harness/security/device_memory.h"
#include "harness/security/device_peer.h"
#include "harness/security/foreign_devices.h"
#include "harness/security/network_searches.h"
#include "harness/trial/live_nodes.h"
#include "results/store/store.h"

namespace {

using namespace virtrain;
using namespace virtrain::harness;

void check(bool holds) {
  if (!holds) { std::abort(); }
}

/// Every text of an answer has come through the gate.
template <typename Value>
void check_texts(const Value& value) {
  if constexpr (std::is_same_v<Value, std::string>) {
    check(printable(value) == value);
  } else if constexpr (is_list<Value>) {
    for (const auto& item : value) { check_texts(item); }
  } else if constexpr (is_optional<Value>) {
    if (value) { check_texts(*value); }
  } else if constexpr (DescribedRecord<Value>) {
    for_each_field<Value>([&](const auto& field) { check_texts(value.*field.member); });
  }
}

template <typename Request>
std::optional<typename Request::Answer> answer_in(const std::string& lines, const Request& request = {}) {
  try {
    auto answer = read_answer(lines, request);
    check_texts(answer);
    return answer;
  } catch (const Error& error) {
    check(error.code() == ErrorCode::trial_failed && printable(error.what()) == error.what());
    return std::nullopt;
  }
}

class Database {
 public:
  Database() : store_(":memory:") {
    results::Experiment experiment;
    experiment.id = experiment.scenario = "fuzz";
    store_.add_experiment(experiment);
  }

  void take(const LeakEvidence& evidence) {
    auto record = to_record(evidence, "probe", "b at a");
    record.arm = "vm";
    struct Undo {};
    try {
      store_.transaction("take what was found", [&] {
        store_.add_leak_searches("fuzz", {&record, 1});
        throw Undo();
      });
    } catch (const Undo&) {}
  }

 private:
  results::Store store_;
};

void judge_network(const canary::Reached& reached, const canary::Listening& said, Database& database) {
  NodePlacement place;
  place.address = "10.77.0.1/16";
  LiveNode owner, peer, looking;
  owner.placement = &place;
  NetworkSearches probes({{"192.0.2.7"}, {"fe80::77"}}, "10.77.0.1/16", "10.77.0.2/16");
  for (auto& [node, listener] : probes.listeners(owner, peer, looking)) { listener.said = said; }
  for (const bool own_kernel : {false, true}) {
    check(!request_text(probes.request(own_kernel)).empty());
    for (const auto& [name, evidence] : probes.judge(reached, own_kernel)) { database.take(evidence); }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Database database;
  const std::string lines(reinterpret_cast<const char*>(data), size);
  const vmctl::PlacedDevice device;
  const auto filled = answer_in<canary::FillRequest>(lines);
  if (const auto searched = answer_in<canary::SearchRequest>(lines)) {
    database.take(evidence_of(*searched, {"own"}));
    database.take(device_evidence(device, filled.value_or(canary::Filled()), *searched, true));
  }
  if (const auto functions = answer_in<canary::FunctionsRequest>(lines)) {
    for (const bool own_kernel : {false, true}) { database.take(foreign_devices(*functions, own_kernel)); }
  }
  const std::vector<PeerRange> ranges{{{"region", 0x1000, 4096}, true}, {{"memory of the host", 0, 4096}}};
  if (const auto reads = answer_in(lines, canary::PeerRequest{.ranges{ranges.begin(), ranges.end()}})) {
    database.take(peer_evidence(*reads, ranges, "own", device));
  }
  const auto said = answer_in<canary::ListenRequest>(lines);
  if (const auto reached = answer_in<canary::ReachRequest>(lines)) {
    judge_network(*reached, said.value_or(canary::Listening()), database);
  }
  answer_in<canary::MemoryRequest>(lines);
  return 0;
}
