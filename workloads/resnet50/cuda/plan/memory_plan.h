#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/program/step_program.h"

/// Where each tensor of a step lies in one block of device memory, decided before anything is allocated.
namespace virtrain::resnet50::cuda {

inline constexpr std::int64_t memory_alignment =
    256;  ///< bytes; vector loads need 16, norms run best with 128

/// First and last operation that touches a tensor, in program order (micro-batch, then update).
struct Lifetime {
  int first = 0;
  int last = -1;  ///< before `first`: never used

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};
/// Lifetimes of all tensors that are not persistent; the others have their default.
std::vector<Lifetime> lifetimes(const StepProgram& program);

struct MemoryPlan {
  std::vector<std::int64_t> offset;   ///< bytes, of each tensor; views included
  std::int64_t persistent_bytes = 0;  ///< at the beginning: parameters, gradients, statistics, images
  std::int64_t workspace_offset = 0;  ///< room that cuDNN's graphs share, behind all tensors
  std::int64_t peak_bytes = 0;        ///< of all of it
};
/// Largest tensors first, each at the lowest place that nothing alive at the same time takes.
MemoryPlan plan_memory(const StepProgram& program, std::int64_t workspace_bytes);

/// Bytes that the tensors leave of those that are available, in which a workspace fits; negative where they
/// do not fit themselves.
std::int64_t workspace_room(const StepProgram& program, std::int64_t available_bytes);

/// Lower bound of every plan: the most that is alive at one operation, and the persistent tensors.
std::int64_t least_bytes(const StepProgram& program, std::int64_t workspace_bytes);

/// Elements of one tensor that cuDNN's engines can count.
inline constexpr std::int64_t most_tensor_elements = (1LL << 31) - 1;
bool is_countable(const StepProgram& program);

/// The largest batch whose plan fits; 0 if not even one image does.
int largest_batch(const Model& model, StepSettings settings, std::int64_t available_bytes,
                  std::int64_t workspace_bytes);
/// Throws Error(usage) with the largest batch that fits if this one does not.
void require_fit(const Model& model, const StepProgram& program, std::int64_t available_bytes,
                 std::int64_t workspace_bytes);

}  // namespace virtrain::resnet50::cuda
