#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// nvidia-smi's matrix of which GPUs reach each other in the guest; empty with fewer than two NVIDIA GPUs.
asio::awaitable<std::string> guest_peer_matrix(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                               const std::vector<vmctl::PlacedDevice>& devices);

/// Whether every one of so many vGPUs is licensed, from the text of `nvidia-smi -q`; one that it leaves out
/// is not. Nothing where it says nothing of licences.
std::optional<bool> all_licensed(const std::string& report, std::size_t gpus);

/// The same of a guest with vGPUs, now; nothing in others.
asio::awaitable<std::optional<bool>> guest_is_licensed(asio::io_context& io,
                                                       std::shared_ptr<AgentClient> agent,
                                                       const Devices& devices, std::size_t gpus);

/// Puts it where the guest's licence client looks for it.
asio::awaitable<void> write_licence_token(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                          std::string token);

/// Makes the GPUs of a VM ready for its trial: gives vGPUs their licence, and sets whole GPUs as the scenario
/// wants them, for under passthrough only the guest's driver can. Throws Error(trial_failed) in nvidia-smi's
/// words.
asio::awaitable<void> prepare_guest_gpus(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                         const Devices& devices, std::size_t gpus);

}  // namespace virtrain::harness
