#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace virtrain {

/// The ranks of this job and what they can do together. All of them call the same functions in the same
/// order.
class Peers {
 public:
  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "Open MPI 4.1.4"; nothing for a process that is alone.
  virtual std::optional<std::string> library() const = 0;
  /// Everyone's text, by rank.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  virtual void barrier() = 0;
  /// Sum of everyone's `send` into everyone's `receive`, both of the same size. In place where they are one.
  virtual void all_reduce(std::span<const float> send, std::span<float> receive) = 0;
  /// Everyone's `send`, by rank, into everyone's `receive`. In place where `send` is our part of `receive`.
  virtual void all_gather(std::span<const float> send, std::span<float> receive) = 0;
  /// `values` of the root to everyone.
  virtual void broadcast(std::span<float> values, int root) = 0;
  /// Rank 0's bytes to everyone.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// Starts an all-reduce in place that runs while we compute, as far as progress() is called. `values` are
  /// not to be touched before it is done.
  virtual void start_all_reduce(std::span<float> values) = 0;
  /// Drives what was started; true if all of it is done.
  virtual bool progress() = 0;
  virtual void wait_all() = 0;
  /// Rank 0's word to everyone. The others wait for it, however long, without keeping a core busy.
  virtual int announce(int word) = 0;
  /// There and back between ranks 0 and 1: rank 0 sends `message` and has the answer in it afterwards; rank 1
  /// answers with what came, each byte plus one. The others do nothing.
  virtual void round_trip(std::span<unsigned char> message) = 0;

  virtual double largest(double value) = 0;
  virtual double total(double value) = 0;
  virtual std::int64_t total(std::int64_t value) = 0;

  /// Ends all ranks of the job at once with this status, without destructors; of a lone process, just itself.
  [[noreturn]] void abort(int status) {
    abort_others(status);
    std::_Exit(status);
  }

 private:
  virtual void abort_others(int /*status*/) {}
};

/// Joins the job that mpirun's environment names, or is alone. Throws Error. Only one thread at a time may
/// use the peers.
std::unique_ptr<Peers> join_peers();

/// Why `what` cannot be done by a process that is alone: Error(usage) with mpirun's command line, or
/// Error(host_unable) in a build without MPI.
Error needs_ranks(const std::string& what, const std::string& command);

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
