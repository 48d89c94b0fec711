#include "harness/security/node_memory.h"

#include <algorithm>

#include "common/system/nvme.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/job/programs.h"

namespace virtrain::harness {
namespace {

constexpr std::chrono::seconds command_deadline{60};

/// A guest without udev loads no driver by itself.
constexpr const char* disk_driver = "nvme";

}  // namespace

asio::awaitable<std::string> lines_of_canary(RunContext& context, LiveNode& node, std::string verb,
                                             std::string request, std::chrono::milliseconds deadline) {
  NodeInput input;
  input.standard_input = std::move(request);
  std::vector<std::string> argv{node.made.programs.at(canary_program), std::move(verb)};
  co_return co_await run_in_node(context.io, node.agent, std::move(argv), deadline, std::move(input));
}

asio::awaitable<canary::FoundMemory> memory_in_node(RunContext& context, LiveNode& node,
                                                    std::span<const vmctl::PlacedDevice> devices) {
  std::vector<std::string> addresses;
  bool is_disk = false;
  const auto functions = co_await node.agent->pci_functions();
  for (const auto& function : functions) {
    const auto is_model = [&](const auto& device) {
      return function.vendor == device.vendor && function.device == device.device;
    };
    if (std::none_of(devices.begin(), devices.end(), is_model)) { continue; }
    addresses.push_back(function.address);
    is_disk = is_disk || function.class_code == nvme_class;
  }
  if (is_disk) {
    std::vector<std::string> load{"modprobe", disk_driver};
    co_await run_in_node(context.io, node.agent, std::move(load), command_deadline);
  }
  for (int tries = is_disk ? 30 : 1; true; --tries) {
    canary::MemoryRequest request{addresses};
    auto memory = co_await ask_canary(context, node, std::move(request), canary_work_deadline);
    if (!memory.paths.empty() || tries <= 1) { co_return memory; }
    std::vector<std::string> wait{"sleep", "1"};  // the driver finds its namespaces in the background
    co_await run_in_node(context.io, node.agent, std::move(wait), command_deadline);
  }
}

asio::awaitable<canary::Filled> fill_in_node(RunContext& context, LiveNode& node,
                                             std::vector<std::string> paths, const Canary& canary) {
  canary::FillRequest request{std::move(paths), canary.text, canary_work_seconds};
  co_return co_await ask_canary(context, node, std::move(request), canary_work_deadline);
}

asio::awaitable<canary::Searched> search_in_node(RunContext& context, LiveNode& node,
                                                 std::vector<std::string> paths, const Canary& canary,
                                                 std::uint64_t bytes) {
  canary::SearchRequest request{{{canary.name, canary.text}}, std::move(paths), bytes, canary_work_seconds};
  co_return co_await ask_canary(context, node, std::move(request), canary_work_deadline);
}

}  // namespace virtrain::harness
