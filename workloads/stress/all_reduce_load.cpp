#include <cmath>
#include <vector>

#include "common/error.h"
#include "common/text/units.h"
#include "workloads/common/processor.h"
#include "workloads/common/program.h"
#include "workloads/common/watchdog.h"
#include "workloads/stress/all_reduce.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {
namespace {

class HostAllReduce : public AllReduce {
 public:
  HostAllReduce(Peers& peers, std::uint64_t bytes)
      : peers_(peers), send_(bytes / sizeof(float), 1.0F), receive_(send_.size()) {}
  void run() override { peers_.all_reduce(send_, receive_); }

 private:
  Peers& peers_;
  std::vector<float> send_;
  std::vector<float> receive_;
};

/// Sums in the host's memory, by MPI.
std::unique_ptr<AllReduce> make_host_all_reduce(Peers& peers, std::uint64_t bytes) {
  const std::uint64_t total = 2 * bytes * static_cast<std::uint64_t>(environment_local_rank().size);
  if (total > available_memory_bytes()) {
    throw Error("make the vectors", ErrorCode::host_unable,
                format_size(total) + " of all ranks here do not fit into the " +
                    format_size(available_memory_bytes()) +
                    " of memory that are free (say a smaller --bytes)");
  }
  return std::make_unique<HostAllReduce>(peers, bytes);
}

/// Rank 0 sends one to the others before each sum.
enum Word { end = 0, sum = 1 };

constexpr std::uint64_t default_host_bytes = 16ULL << 20;
constexpr std::uint64_t default_gpu_bytes = 64ULL << 20;

std::uint64_t size_of(const Flags& flags) {
  if (flags.bytes > 0) { return flags.bytes; }
  return flags.gpu ? default_gpu_bytes : default_host_bytes;
}

/// How long nothing may come of it: rank 0 rests between two sums, which is no stall.
std::chrono::seconds patience(const Flags& flags) {
  const double rest =
      flags.bytes_per_second
          ? std::ceil(static_cast<double>(size_of(flags)) / static_cast<double>(*flags.bytes_per_second))
          : 0;
  return std::chrono::seconds(flags.stall_seconds + static_cast<std::int64_t>(rest));
}

/// Rank 0 leads: its worker keeps the rate, and its run hears "go" and "stop". The others follow its words.
class RanksLoad : public Load {
 public:
  explicit RanksLoad(const Flags& flags)
      : flags_(flags),
        bytes_(size_of(flags)),
        watchdog_(patience(flags), [stall_seconds = flags.stall_seconds](const std::string& doing) {
          report_failure("virtrain-stress", doing, stall_words(stall_seconds));
        }) {
    watchdog_.expect("join the other ranks");
    peers_ = join_peers();
    if (peers_->size() == 1) {
      throw needs_ranks("stress --kind allreduce", "virtrain-stress --kind allreduce …");
    }
  }

  const char* unit() const override { return "B"; }
  int threads() const override { return 1; }
  Device device() override { return flags_.gpu ? gpu_all_reduce_device(*flags_.gpu) : Load::device(); }
  std::unique_ptr<Worker> make_worker(int index) override;

  std::vector<std::string> meet(const std::string& hello) override {
    if (flags_.gpu) { watchdog_.expect("join the other GPUs"); }
    all_reduce_ = flags_.gpu ? make_gpu_all_reduce(*peers_, *flags_.gpu, bytes_)
                             : make_host_all_reduce(*peers_, bytes_);
    std::vector<std::string> hellos = peers_->gather(hello);
    watchdog_.pause();  // until "go"
    return hellos;
  }

  bool follow() override {
    if (peers_->rank() == 0) { return false; }
    while (peers_->announce(Word::end) == Word::sum) {
      add_up();
      watchdog_.pause();  // a low level lets rank 0 rest for as long as it likes
    }
    leave();
    return true;
  }

  void finish() override {
    watchdog_.expect("end the others");
    peers_->announce(Word::end);
    leave();
  }

  void abort(int status) override { peers_->abort(status); }

  /// One sum that rank 0 asks for; returns its bytes.
  std::uint64_t lead() {
    watchdog_.expect("ask for a sum");
    peers_->announce(Word::sum);
    add_up();
    watchdog_.pause();
    return bytes_;
  }

 private:
  void add_up() {
    watchdog_.expect("add up over all ranks");
    all_reduce_->run();
  }

  /// Everyone's last sum is done when it returns. Ours may be done while we still send what another rank
  /// needs for its own, and taking NCCL down would end that.
  void leave() {
    watchdog_.expect("leave the other ranks");
    peers_->barrier();
  }

  const Flags flags_;
  std::uint64_t bytes_;
  Watchdog watchdog_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<AllReduce> all_reduce_;
};

class LeadingWorker : public Worker {
 public:
  explicit LeadingWorker(RanksLoad& load) : load_(load) {}
  std::uint64_t work() override { return load_.lead(); }

 private:
  RanksLoad& load_;
};

std::unique_ptr<Worker> RanksLoad::make_worker(int /*index*/) {
  return std::make_unique<LeadingWorker>(*this);
}

}  // namespace

std::unique_ptr<Load> make_ranks_load(const Flags& flags) {
  return std::make_unique<RanksLoad>(flags);
}

}  // namespace virtrain::stress
