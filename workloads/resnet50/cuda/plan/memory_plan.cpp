#include "workloads/resnet50/cuda/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

namespace virtrain::resnet50::cuda {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

std::int64_t stored_bytes(const StepProgram& program, const ProgramTensor& tensor) {
  return aligned(tensor.count * bytes_of(tensor.element, program.settings.numeric));
}

/// A tensor of the step with its place.
struct Placed {
  std::size_t tensor;
  std::int64_t offset;
  std::int64_t bytes;
};

/// The lowest offset at which `bytes` fit between the neighbours in time (sorted by offset).
std::int64_t lowest_gap(const std::vector<Placed>& placed, const std::vector<Lifetime>& lives,
                        std::size_t tensor, std::int64_t bytes) {
  std::int64_t offset = 0;
  for (const Placed& other : placed) {
    if (!lives[other.tensor].overlaps(lives[tensor])) { continue; }
    if (offset + bytes <= other.offset) { break; }
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

std::vector<Placed> place_step_tensors(const StepProgram& program) {
  const std::vector<Lifetime> lives = lifetimes(program);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].last >= lives[i].first) { order.push_back(i); }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return stored_bytes(program, program.tensors[a]) > stored_bytes(program, program.tensors[b]);
  });
  std::vector<Placed> placed;
  for (const std::size_t tensor : order) {
    const std::int64_t bytes = stored_bytes(program, program.tensors[tensor]);
    const Placed next{tensor, lowest_gap(placed, lives, tensor, bytes), bytes};
    const auto before = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), next, before), next);
  }
  return placed;
}

bool fits(const StepProgram& program, std::int64_t available_bytes, std::int64_t workspace_bytes) {
  return is_countable(program) && plan_memory(program, workspace_bytes).peak_bytes <= available_bytes;
}

}  // namespace

std::vector<Lifetime> lifetimes(const StepProgram& program) {
  std::vector<Lifetime> lives(program.tensors.size());
  int position = 0;
  for (const auto* const operations : {&program.micro_batch, &program.update}) {
    for (const Operation& operation : *operations) {
      for (const Operand& operand : operation.operands) {
        if (program.at(operand.tensor).persistent) { continue; }
        Lifetime& life = lives[static_cast<std::size_t>(operand.tensor)];
        if (life.last < life.first) { life.first = position; }
        life.last = position;
      }
      ++position;
    }
  }
  return lives;
}

MemoryPlan plan_memory(const StepProgram& program, std::int64_t workspace_bytes) {
  MemoryPlan plan;
  plan.offset.resize(program.tensors.size(), 0);
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    if (!tensor.persistent || tensor.view_of != no_tensor) { continue; }
    plan.offset[i] = plan.persistent_bytes;
    plan.persistent_bytes += stored_bytes(program, tensor);
  }
  plan.workspace_offset = plan.persistent_bytes;
  for (const Placed& placed : place_step_tensors(program)) {
    plan.offset[placed.tensor] = plan.persistent_bytes + placed.offset;
    plan.workspace_offset =
        std::max(plan.workspace_offset, plan.persistent_bytes + placed.offset + placed.bytes);
  }
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    if (tensor.view_of == no_tensor) { continue; }
    plan.offset[i] = plan.offset[static_cast<std::size_t>(tensor.view_of)] +
                     tensor.first * bytes_of(tensor.element, program.settings.numeric);
  }
  plan.peak_bytes = plan.workspace_offset + aligned(workspace_bytes);
  return plan;
}

std::int64_t workspace_room(const StepProgram& program, std::int64_t available_bytes) {
  return available_bytes / memory_alignment * memory_alignment - plan_memory(program, 0).peak_bytes;
}

std::int64_t least_bytes(const StepProgram& program, std::int64_t workspace_bytes) {
  std::int64_t persistent = 0;
  std::vector<std::int64_t> change(program.micro_batch.size() + program.update.size() + 1, 0);
  const std::vector<Lifetime> lives = lifetimes(program);
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const std::int64_t bytes = stored_bytes(program, tensor);
    if (tensor.persistent) {
      persistent += tensor.view_of == no_tensor ? bytes : 0;
    } else if (lives[i].last >= lives[i].first) {
      change[static_cast<std::size_t>(lives[i].first)] += bytes;
      change[static_cast<std::size_t>(lives[i].last) + 1] -= bytes;
    }
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return persistent + *std::max_element(change.begin(), change.end()) + aligned(workspace_bytes);
}

bool is_countable(const StepProgram& program) {
  return std::all_of(program.tensors.begin(), program.tensors.end(), [](const ProgramTensor& tensor) {
    return tensor.per_micro_batch || tensor.count <= most_tensor_elements;
  });
}

int largest_batch(const Model& model, StepSettings settings, std::int64_t available_bytes,
                  std::int64_t workspace_bytes) {
  const auto possible = [&](int batch) {
    settings.batch = batch;
    return fits(build_step(model, settings), available_bytes, workspace_bytes);
  };
  int good = 0;
  int bad = 4097;  // the flag allows no more
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (possible(middle) ? good : bad) = middle;
  }
  return good;
}

void require_fit(const Model& model, const StepProgram& program, std::int64_t available_bytes,
                 std::int64_t workspace_bytes) {
  if (fits(program, available_bytes, workspace_bytes)) { return; }
  constexpr double gib = 1 << 30;
  const int batch = program.settings.batch;
  const int largest = largest_batch(model, program.settings, available_bytes, workspace_bytes);
  throw Error(
      "plan the GPU's memory", ErrorCode::usage,
      fmt::format(
          "batch {} does not fit in {:.1f} GiB; {}", batch, static_cast<double>(available_bytes) / gib,
          largest == 0 ? "not even one image does" : fmt::format("the largest that does is {}", largest)));
}

}  // namespace virtrain::resnet50::cuda
