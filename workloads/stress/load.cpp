#include "workloads/stress/load.h"

#include "workloads/common/affinity.h"

#include <algorithm>

namespace virtrain::stress {

std::unique_ptr<Load> make_load(const Flags& flags) {
  if (flags.kind == Kind::allreduce) return make_ranks_load(flags);
  if (loads_gpu(flags)) return make_gpu_load(flags);
  const int cores = static_cast<int>(allowed_cpus().size());
  const bool on_every_core = flags.kind != Kind::disk && flags.kind != Kind::net;
  const int threads = flags.threads > 0 ? flags.threads : (on_every_core ? cores : 1);
  if (flags.kind == Kind::disk) return make_disk_load(flags, threads);
  if (flags.kind == Kind::net && flags.listen_port) return make_receiver(flags);
  if (flags.kind == Kind::net) return make_sender(flags, threads);
  return make_compute_load(flags, threads);
}

}  // namespace virtrain::stress
