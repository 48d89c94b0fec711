#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/stress/flags.h"

namespace virtrain::stress {

/// One thread's work.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Does a piece that takes some milliseconds, never longer than a few tenths of a second even if a peer or
  /// disk is slow, and says how much it was. Throws Error.
  virtual std::uint64_t work() = 0;
};

/// The device of a load, for the record "hello".
struct Device {
  std::string name = {};
  std::optional<std::string> pci_address = {};  ///< of a GPU
};

/// A load on one resource.
class Load {
 public:
  virtual ~Load() = default;
  /// "B", "operations" or "accesses": what work() counts.
  virtual const char* unit() const = 0;
  virtual int threads() const = 0;
  /// The host's processor unless it is a GPU that is loaded.
  virtual Device device();
  /// Worker number `index`, made by its own thread (so that its memory is near).
  virtual std::unique_ptr<Worker> make_worker(int index) = 0;
  /// The port that a listening load was given.
  virtual std::optional<int> port() const { return std::nullopt; }

  // For a load on several ranks, which rank 0 leads; all of them come here in this order.

  /// Meets the other ranks: what each of them says in its record "hello", by rank.
  virtual std::vector<std::string> meet(const std::string& hello) { return {hello}; }
  /// On the ranks that do not lead: works as rank 0 says, to the end, and returns true.
  virtual bool follow() { return false; }
  /// On the rank that leads, after its last piece: the others end, too.
  virtual void finish() {}
  /// Ends all ranks at once after a failure.
  virtual void abort(int /*status*/) {}
};

/// The kind's load; opens what it needs. Throws Error.
std::unique_ptr<Load> make_load(const Flags& flags);
/// A load of a GPU: gemm, power, l2, h2d, d2h, and membw. Throws Error(host_unable) in a build without CUDA.
std::unique_ptr<Load> make_gpu_load(const Flags& flags);
/// The GPU that CUDA numbers so. Only in builds with CUDA.
Device gpu_device(int gpu);
/// allreduce: joins the other ranks. Throws Error for a process that is alone.
std::unique_ptr<Load> make_ranks_load(const Flags& flags);
/// Name of the one disk in this folder (/sys/block) whose `serial` says so. Throws Error(bad_input).
std::string disk_with_serial(const std::filesystem::path& disks, const std::string& serial);

// How the load of a GPU is cut into pieces. Pure: what they are is known without a GPU.

/// Bytes that one piece copies, of which each counts `times` (2 within one memory: read and written). Without
/// a rate `largest`; with one at most a twentieth of what a second may bring, so that every record "progress"
/// shows the rate, and whole lines of memory, at least one.
std::uint64_t piece_bytes(std::uint64_t largest, int times, std::optional<std::uint64_t> bytes_per_second);

/// So many products as take some milliseconds, of which the wait for the GPU is then a small part; at least
/// one.
int products_in_piece(double seconds_of_one);

/// Goes round a buffer: copies of one small part of it would stay in a cache.
class Ring {
 public:
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Part&) const = default;
  };

  /// A buffer of so many bytes, at least one.
  explicit Ring(std::uint64_t size) : size_(size) {}
  /// Where the next `bytes` lie; round and round for more than the buffer has.
  std::vector<Part> next(std::uint64_t bytes);

 private:
  std::uint64_t size_;
  std::uint64_t offset_ = 0;
};

}  // namespace virtrain::stress
