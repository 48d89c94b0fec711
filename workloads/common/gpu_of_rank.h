#pragma once

#include "workloads/common/program.h"

namespace virtrain {

/// The GPU of a rank where `visible` GPUs are counted from 0: the first rank of a host takes `first`, each
/// further rank the next. Throws Error(host_unable) where they do not suffice, except where NCCL_HOSTID is
/// set: NCCL lets two ranks use one GPU only where each has a NCCL_HOSTID of its own, a test that the data is
/// right.
int gpu_of_rank(const LocalRank& local, int first, int visible);

}  // namespace virtrain
