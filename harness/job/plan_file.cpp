#include "harness/job/plan_file.h"

#include <nlohmann/json.hpp>

#include <vector>

#include "common/error.h"
#include "common/frames/frame.h"
#include "common/text/json.h"
#include "harness/agent/client/run_in_node.h"

namespace virtrain::harness {
namespace {

constexpr std::chrono::seconds folder_deadline{60};

std::string folder_in(const std::string& cache_home) {
  return cache_home + "/virtrain";
}

/// As plan_cache_file() of workloads/resnet50/cuda names it.
std::string file_in(const std::string& cache_home) {
  return folder_in(cache_home) + "/cudnn-plans.json";
}

constexpr const char* reading = "read the node's plan file";

Error no_plan_file(const std::string& reason) {
  return {reading, ErrorCode::protocol, reason};
}

}  // namespace

void PlanFile::add(const std::string& text) {
  PlanFile found;
  try {
    found.engines_ = parse_json(text, reading, ErrorCode::protocol).get<decltype(engines_)>();
  } catch (const nlohmann::json::exception& error) { throw no_plan_file(error.what()); }
  add(found);
}

void PlanFile::add(const PlanFile& other) {
  auto all = engines_;
  for (auto [machine, engines] : other.engines_) {
    all[machine].merge(engines);  // keeps what is known
  }
  if (nlohmann::json(all).dump().size() > max_body_bytes) {
    throw no_plan_file("over 1 MiB with what is known");
  }
  engines_ = std::move(all);
}

std::size_t PlanFile::differences_from(const PlanFile& other) const {
  std::size_t count = 0;
  for (const auto& [machine, engines] : engines_) {
    const auto there = other.engines_.find(machine);
    if (there == other.engines_.end()) { continue; }
    for (const auto& [graph, engine] : engines) {
      const auto known = there->second.find(graph);
      count += known != there->second.end() && known->second != engine ? 1 : 0;
    }
  }
  return count;
}

std::string PlanFile::text() const {
  return nlohmann::json(engines_).dump();
}

PlanFile KnownPlans::for_node(const std::string& guest_of) const {
  PlanFile plans = bare_metal_;
  if (const auto own = guests_.find(guest_of); own != guests_.end()) { plans.add(own->second); }
  return plans;
}

std::size_t KnownPlans::add(const std::string& guest_of, const PlanFile& found) {
  if (!guest_of.empty()) {
    PlanFile both = bare_metal_;  // it must fit into one file with these
    auto& own = guests_[guest_of];
    both.add(own);
    both.add(found);
    own.add(found);
    return found.differences_from(bare_metal_);
  }
  bare_metal_.add(found);
  std::size_t count = 0;
  for (auto& [tenant, own] : guests_) { count += own.differences_from(found); }
  return count;
}

FusionRule KnownPlans::fusion_rule(const std::string& guest_of, const std::string& trained, bool alone) {
  if (guest_of.empty() && alone && !fused_.contains(trained)) { return FusionRule::auto_; }
  fused_.insert(trained);
  return FusionRule::remembered;
}

asio::awaitable<void> give_plans(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                 std::string cache_home, const PlanFile& plans) {
  if (plans.empty()) { co_return; }
  const std::vector<std::string> make_folder{"mkdir", "-p", folder_in(cache_home)};
  co_await run_in_node(io, agent, make_folder, folder_deadline);
  co_await agent->write_file(file_in(cache_home), plans.text());
}

asio::awaitable<PlanFile> take_plans(std::shared_ptr<AgentClient> agent, std::string cache_home) {
  PlanFile found;
  found.add(co_await agent->read_file(file_in(cache_home)));
  co_return found;
}

}  // namespace virtrain::harness
