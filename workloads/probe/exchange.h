#pragma once

#include <memory>
#include <span>
#include <string>

#include "workloads/common/peers/peers.h"
#include "workloads/probe/flags.h"

namespace virtrain::probe {

/// The rank whose values a broadcast carries.
inline constexpr int broadcast_root = 0;

/// Two buffers of floats on every rank and the collectives between them: in the host's memory by MPI, or on
/// GPUs by NCCL. All ranks call the same functions in the same order.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// "NCCL 2.28.3"
  virtual std::string library() const = 0;
  /// This rank's device, as nccl-tests names it: " 0 [0000:19:00.0] NVIDIA H200".
  virtual std::string device() const = 0;
  /// Whether there is a way with an output of its own; in place there always is.
  virtual bool goes_out_of_place(Collective collective) const = 0;

  /// Fills the buffers. The values stay until the next take().
  virtual void take(std::span<const float> send, std::span<float> receive) = 0;
  /// Does it so many times: from `send` to `receive`, or within `receive` (of an all-gather, this rank's part
  /// of it goes in). Returns the seconds of all of them on this rank.
  virtual double run(Collective collective, bool in_place, int times) = 0;
  /// Brings the output to where `receive` was taken from.
  virtual void give_back() = 0;
};

/// MPI's collectives on the host's memory.
std::unique_ptr<Exchange> make_host_exchange(Peers& peers);

/// NCCL's on one GPU for each rank, the first rank of a host on `first_gpu`
/// (workloads/common/gpu/gpu_choice.h). Throws Error(host_unable) without a GPU or NCCL, or in a build
/// without them.
std::unique_ptr<Exchange> make_nccl_exchange(Peers& peers, int first_gpu);

}  // namespace virtrain::probe
