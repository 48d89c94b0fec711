#include "workloads/common/run_program.h"
#include "workloads/resnet50/cuda/run/trainer.h"
#include "workloads/resnet50/flags.h"

int main(int argc, char** argv) {
  using namespace virtrain;
  using namespace virtrain::resnet50;
  constexpr const char* executable = "virtrain-resnet50-cuda";
  constexpr int steady_seconds = 60;
  return run_program(
      executable, "start",
      [&] {
        return parse_flags(argc, argv,
                           {executable,
                            "GPU",
                            {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16},
                            steady_seconds,
                            {"highest", "none", "addition", "statistics", "full"},
                            /*on_gpu=*/true});
      },
      [&](const Flags& flags) { return run_training(executable, flags, cuda::make_backend); });
}
