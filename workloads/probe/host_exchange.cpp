#include "common/system/time.h"
#include "workloads/common/processor.h"
#include "workloads/probe/exchange.h"

namespace virtrain::probe {
namespace {

class HostExchange : public Exchange {
 public:
  explicit HostExchange(Peers& peers) : peers_(peers) {}

  std::string library() const override { return peers_.library().value_or("one process"); }
  std::string device() const override { return " 0 [0] " + cpu_model(); }
  /// MPI's broadcast is in place only.
  bool goes_out_of_place(Collective collective) const override { return collective != Collective::broadcast; }

  void take(std::span<const float> send, std::span<float> receive) override {
    send_ = send;
    receive_ = receive;
  }

  double run(Collective collective, bool in_place, int times) override {
    const std::int64_t start_ns = monotonic_ns();
    for (int k = 0; k < times; ++k) { run_once(collective, in_place); }
    return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  }

  void give_back() override {}

 private:
  void run_once(Collective collective, bool in_place) {
    const auto rank = static_cast<std::size_t>(peers_.rank());
    switch (collective) {
      case Collective::all_reduce:
        peers_.all_reduce(in_place ? receive_ : send_, receive_);
        break;
      case Collective::all_gather:
        peers_.all_gather(in_place ? receive_.subspan(rank * send_.size(), send_.size()) : send_, receive_);
        break;
      case Collective::broadcast:
        peers_.broadcast(receive_, broadcast_root);
        break;
    }
  }

  Peers& peers_;
  std::span<const float> send_;
  std::span<float> receive_;
};

}  // namespace

std::unique_ptr<Exchange> make_host_exchange(Peers& peers) {
  return std::make_unique<HostExchange>(peers);
}

}  // namespace virtrain::probe
