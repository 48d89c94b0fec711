#include <vector>

#include "common/error.h"
#include "common/text/units.h"
#include "workloads/common/cache.h"
#include "workloads/common/program.h"
#include "workloads/stress/loads/all_reduce.h"

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

}  // namespace

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

}  // namespace virtrain::stress
