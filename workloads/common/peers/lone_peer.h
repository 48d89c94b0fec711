#pragma once

#include "workloads/common/peers/peers.h"

namespace virtrain {

/// A process that mpirun did not start: everything it says to all, it says to itself.
class LonePeer : public Peers {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::optional<std::string> library() const override { return std::nullopt; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  void barrier() override {}
  void all_reduce(std::span<const float> send, std::span<float> receive) override;
  void all_gather(std::span<const float> send, std::span<float> receive) override;
  void broadcast(std::span<float> /*values*/, int /*root*/) override {}
  void broadcast(std::span<std::byte> /*bytes*/) override {}
  void start_all_reduce(std::span<float> /*values*/) override {}
  bool progress() override { return true; }
  void wait_all() override {}
  int announce(int word) override { return word; }
  void round_trip(std::span<unsigned char> message) override;
  double largest(double value) override { return value; }
  double total(double value) override { return value; }
  std::int64_t total(std::int64_t value) override { return value; }
};

/// Throws Error(usage) where something else than Open MPI's mpirun has started this process after others of
/// its job (srun, another MPI's mpiexec): each would take itself for the only one, and the first GPU. The
/// first one may be rightly alone: srun --pty starts a shell as such.
void refuse_other_launchers();

}  // namespace virtrain
