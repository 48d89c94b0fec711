#include "workloads/common/onednn.h"
#include "workloads/common/run_program.h"
#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/cpu/trainer.h"
#include "workloads/resnet50/flags.h"

int main(int argc, char** argv) {
  using namespace virtrain;
  using namespace virtrain::resnet50;
  constexpr const char* executable = "virtrain-resnet50-cpu";
  onednn::avoid_fused_sums_where_emulated();
  return run_program(
      executable, "start",
      [&] {
        return parse_flags(argc, argv, {executable, "CPU", cpu::possible_precisions()});
      },
      [&](const Flags& flags) { return run_training(executable, flags, cpu::make_backend); });
}
