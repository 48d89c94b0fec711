#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace virtrain::stress
