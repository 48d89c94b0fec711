// Stands where the trainer does in tests of emulated nodes that train together: the trainer's own run
// (protocol, ranks, watchdog) with steps that exchange gradients over the network and compute nothing.

#include <chrono>
#include <thread>
#include <vector>

#include "common/model/workload.h"
#include "workloads/common/program.h"
#include "workloads/resnet50/training/training.h"

namespace {

using namespace virtrain;
using namespace virtrain::resnet50;

constexpr std::chrono::milliseconds least_step{200};

class QuickTrainer final : public TrainingBackend {
 public:
  explicit QuickTrainer(Peers& peers) : peers_(peers) {}

  nlohmann::json hello() const override { return {{"isa", "none"}, {"threads", 1}}; }
  void set_up(Watchdog& /*watchdog*/) override { gradients_.resize(resnet50_parameters); }
  StepResult step(const StepOrder& order, Timeline& /*timeline*/) override {
    const auto begin = std::chrono::steady_clock::now();
    const bool stop = peers_.announce(order.stop_requested ? 1 : 0) != 0;
    std::this_thread::sleep_for(least_step);
    peers_.all_reduce(gradients_, gradients_);
    ++steps_;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return {elapsed.count(), 7.0 / static_cast<double>(steps_), std::nullopt, stop};
  }
  nlohmann::json result(std::int64_t /*images*/) override {
    return {{"bytes_allreduced_per_step", peers_.size() > 1 ? gradients_.size() * sizeof(float) : 0}};
  }
  std::uint64_t parameters_hash() override { return steps_; }
  void write_dump() const override {}

 private:
  Peers& peers_;
  std::vector<float> gradients_;
  std::uint64_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* executable = "virtrain-resnet50-cpu";
  return run_program(
      executable, "start",
      [&] {
        return parse_flags(argc, argv, {executable, "CPU", {Precision::fp32}});
      },
      [&](const Flags& flags) {
        return run_training(executable, flags,
                            [](const Flags&, Peers& peers) { return std::make_unique<QuickTrainer>(peers); });
      });
}
