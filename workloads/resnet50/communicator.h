#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace virtrain::resnet50 {

/// The ranks of this job. A process that mpirun did not start is alone and never initializes MPI. Without MPI
/// (communicator_alone.cpp) every process is.
class Communicator {
 public:
  /// Joins the job that the environment names (OMPI_COMM_WORLD_SIZE), or is alone.
  Communicator();
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  /// "Open MPI 4.1.4"; nothing for a process that is alone.
  std::optional<std::string> library() const;

  /// Everyone's value, by rank.
  std::vector<std::uint64_t> gather(std::uint64_t value);
  double sum(double value);
  /// Waits for rank 0's value without keeping a core busy; returns at once on rank 0.
  int broadcast(int value);
  /// Rank 0's bytes to everyone.
  void broadcast(std::span<std::byte> bytes);

  /// An all-reduce (sum, in place) that runs while we compute, as far as progress() is called.
  void start_sum(std::span<float> values);
  /// Drives what is under way; true if all of it is done.
  bool progress();
  void wait_all();

  /// Ends all ranks of the job at once with this status; of a lone process, just itself.
  [[noreturn]] void abort(int status);

 private:
  struct Requests;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool mpi_ = false;
  std::unique_ptr<Requests> requests_;
};

}  // namespace virtrain::resnet50
