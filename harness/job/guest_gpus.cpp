#include "harness/job/guest_gpus.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"
#include "harness/agent/client/run_in_node.h"

namespace virtrain::harness {
namespace {

constexpr std::chrono::seconds tool_deadline{60};
constexpr std::chrono::seconds licence_deadline{60};
/// Where NVIDIA's licence client looks for it.
constexpr const char* license_token_file = "/etc/nvidia/ClientConfigToken/client_configuration_token.tok";
constexpr int token_mode = 0600;
constexpr const char* licence_client = "/usr/bin/nvidia-gridd";

/// By file and never on a command line or in a log: whoever has the token has the licences.
asio::awaitable<void> give_licence(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                   const std::string& token_file) {
  const auto token = virtrain::read_file(token_file);
  if (!token) {
    throw Error("read the vGPU licence token", ErrorCode::trial_failed, token_file + " cannot be read");
  }
  const std::vector<std::string> start_client{licence_client};
  co_await write_licence_token(io, agent, *token);
  co_await run_in_node(io, agent, start_client, tool_deadline);
}

/// The client asks its server in the background. A guest that gets none in time is run all the same, and
/// judged.
asio::awaitable<void> wait_for_licence(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                       const Devices& devices, std::size_t gpus) {
  asio::steady_timer pause(io);
  const auto end = std::chrono::steady_clock::now() + licence_deadline;
  while (std::chrono::steady_clock::now() < end) {
    const auto licensed = co_await guest_is_licensed(io, agent, devices, gpus);
    if (licensed.value_or(false)) { co_return; }
    pause.expires_after(std::chrono::seconds(1));
    co_await pause.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<vmctl::DeviceSettings> settings_now(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                                    const std::string& gpu) {
  const auto answer = co_await run_in_node(io, agent, vmctl::settings_query(gpu), tool_deadline);
  co_return vmctl::parse_settings_answer(answer);
}

asio::awaitable<void> set_gpu(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                              const vmctl::DeviceSettings& wanted, const std::string& gpu) {
  const auto before = co_await settings_now(io, agent, gpu);
  for (const auto& command : vmctl::settings_commands(gpu, before, wanted)) {
    co_await run_in_node(io, agent, command, tool_deadline);
  }
  const auto differences = vmctl::settings_differences(wanted, co_await settings_now(io, agent, gpu));
  if (!differences.empty()) {
    throw Error("set GPU " + gpu + " of " + agent->node(), ErrorCode::trial_failed, join(differences, ", "));
  }
}

}  // namespace

std::optional<bool> all_licensed(const std::string& report, std::size_t gpus) {
  // "    License Status                    : Licensed (Expiry: 2026-11-21 8:6:49 GMT)", once a GPU
  std::size_t told = 0, licensed = 0;
  for (const auto& line : split(report, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(0, colon)) != "License Status") { continue; }
    ++told;
    if (trim(line.substr(colon + 1)).starts_with("Licensed")) { ++licensed; }
  }
  if (told == 0) { return std::nullopt; }
  return told == gpus && licensed == gpus;
}

asio::awaitable<std::optional<bool>> guest_is_licensed(asio::io_context& io,
                                                       std::shared_ptr<AgentClient> agent,
                                                       const Devices& devices, std::size_t gpus) {
  if (devices.kind != DeviceKind::vgpu || gpus == 0) { co_return std::nullopt; }
  const std::vector<std::string> ask{"nvidia-smi", "-q"};
  const auto report = co_await run_in_node(io, agent, ask, tool_deadline);
  co_return all_licensed(report, gpus);
}

asio::awaitable<std::string> guest_peer_matrix(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                               const std::vector<vmctl::PlacedDevice>& devices) {
  const auto is_nvidia_gpu = [](const auto& device) {
    return device.device_class == vmctl::DeviceClass::gpu && device.vendor == vmctl::nvidia;
  };
  if (std::ranges::count_if(devices, is_nvidia_gpu) < 2) { co_return std::string(); }
  const std::vector<std::string> ask{"nvidia-smi", "topo", "-p2p", "r"};
  co_return co_await run_in_node(io, agent, ask, tool_deadline);
}

asio::awaitable<void> write_licence_token(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                          std::string token) {
  // A command has a name of its own: g++ 12 takes no initializer list in an expression with co_await.
  const std::vector<std::string> make_folder{"mkdir", "-p", "/etc/nvidia/ClientConfigToken"};
  co_await run_in_node(io, agent, make_folder, tool_deadline);
  co_await agent->write_file(license_token_file, std::move(token), token_mode);
}

asio::awaitable<void> prepare_guest_gpus(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                         const Devices& devices, std::size_t gpus) {
  if (gpus == 0) { co_return; }
  if (!devices.licence_token.empty()) {
    co_await give_licence(io, agent, devices.licence_token);
    co_await wait_for_licence(io, agent, devices, gpus);
  }
  // A vGPU's guest can set neither power nor clocks: those are the card's.
  if (devices.kind != DeviceKind::passthrough || devices.settings.empty()) { co_return; }
  for (std::size_t i = 0; i < gpus; ++i) { co_await set_gpu(io, agent, devices.settings, std::to_string(i)); }
}

}  // namespace virtrain::harness
