#include "workloads/stress/loads/loads.h"

#include "workloads/common/affinity.h"

namespace virtrain::stress {

std::string gpu_stall_words(int stall_seconds) {
  return "nothing came of it for " + std::to_string(stall_seconds) +
         " s: the GPU may be broken or gone (nvidia-smi and the kernel's log say so), or it is too slow "
         "(then --stall_seconds gives it longer)";
}

std::unique_ptr<Load> make_load(const Flags& flags) {
  if (flags.kind == Kind::allreduce) { return make_ranks_load(flags); }
  if (loads_gpu(flags)) { return make_gpu_load(flags); }
  const int cores = static_cast<int>(allowed_cpus().size());
  const bool on_every_core = flags.kind != Kind::disk && flags.kind != Kind::net;
  const int threads = flags.threads > 0 ? flags.threads : (on_every_core ? cores : 1);
  if (flags.kind == Kind::disk) { return make_disk_load(flags, threads); }
  if (flags.kind == Kind::net && flags.listen_port) { return make_receiver(flags); }
  if (flags.kind == Kind::net) { return make_sender(flags, threads); }
  return make_compute_load(flags, threads);
}

}  // namespace virtrain::stress
