#include "workloads/resnet50/cuda/writing/bucket_plan.h"

#include "workloads/resnet50/bucket_rule.h"

namespace virtrain::resnet50::cuda {

std::vector<Bucket> plan_buckets(std::span<const std::int64_t> ends, std::int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  if (ends.empty()) { return buckets; }
  const BucketRule rule(ends.back(), bucket_elements);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!rule.is_complete(first, ends[i]) && i + 1 < ends.size()) { continue; }
    buckets.push_back({first, ends[i] - first, i});
    first = ends[i];
  }
  return buckets;
}

}  // namespace virtrain::resnet50::cuda
