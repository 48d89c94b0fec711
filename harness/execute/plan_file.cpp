#include "harness/execute/plan_file.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "common/error.h"
#include "harness/agent/frame.h"
#include "harness/coordinator/run_in_node.h"

namespace virtrain::harness {
namespace {

constexpr std::chrono::seconds kFolderDeadline{60};

std::string folder_in(const std::string& cache_home) {
  return cache_home + "/virtrain";
}

/// As plan_cache_file() of workloads/resnet50/cuda names it.
std::string file_in(const std::string& cache_home) {
  return folder_in(cache_home) + "/cudnn-plans.json";
}

Error no_plan_file(const std::string& reason) {
  return {"read the node's plan file", ErrorCode::protocol, reason};
}

}  // namespace

void PlanFile::add(const std::string& text) {
  auto all = engines_;
  try {
    auto found = nlohmann::json::parse(text).get<decltype(engines_)>();
    for (auto& [machine, engines] : found) all[machine].merge(engines);  // keeps what is known
  } catch (const nlohmann::json::exception& error) {
    throw no_plan_file(error.what());
  }
  if (nlohmann::json(all).dump().size() > kMaxBodyBytes) throw no_plan_file("over 1 MiB with what is known");
  engines_ = std::move(all);
}

std::string PlanFile::text() const {
  return nlohmann::json(engines_).dump();
}

asio::awaitable<void> give_plans(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                 std::string cache_home, const PlanFile& plans) {
  if (plans.empty()) co_return;
  const std::vector<std::string> make_folder{"mkdir", "-p", folder_in(cache_home)};
  co_await run_in_node(io, agent, make_folder, kFolderDeadline);
  co_await agent->write_file(file_in(cache_home), plans.text());
}

asio::awaitable<void> take_plans(std::shared_ptr<AgentClient> agent, std::string cache_home,
                                 PlanFile& plans) {
  plans.add(co_await agent->read_file(file_in(cache_home)));
}

}  // namespace virtrain::harness
