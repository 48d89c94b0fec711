#include "tests/workloads/resnet50/cuda/plan/cache_model.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "workloads/resnet50/cuda/program/step_program.h"

namespace virtrain::resnet50::cuda {
namespace {

/// A cache of lines that are much longer than a real one's: a tensor has hundreds.
class Cache {
 public:
  static constexpr std::int64_t line_bytes = 1 << 18;

  explicit Cache(std::int64_t bytes) : lines_(static_cast<std::size_t>(bytes / line_bytes)) {}

  /// Bytes that this moves to or from memory.
  std::int64_t touch(std::int64_t line, Access access) {
    std::int64_t moved = 0;
    const auto found = places_.find(line);
    const bool is_new = found == places_.end();
    const bool was_dirty = !is_new && found->second->is_dirty;
    if (!is_new) { recent_.erase(found->second); }
    recent_.push_front({line, was_dirty || access == Access::write});
    places_[line] = recent_.begin();
    if (is_new && access == Access::read) { moved += line_bytes; }
    if (recent_.size() > lines_) {
      if (recent_.back().is_dirty) { moved += line_bytes; }
      places_.erase(recent_.back().line);
      recent_.pop_back();
    }
    return moved;
  }

 private:
  struct Line {
    std::int64_t line;
    bool is_dirty;
  };
  std::size_t lines_;
  std::list<Line> recent_;  ///< the latest first
  std::unordered_map<std::int64_t, std::list<Line>::iterator> places_;
};

struct Range {
  std::int64_t first, count;  ///< lines
  Access access;
};

std::vector<Range> ranges_of(const StepProgram& program, const MemoryPlan& plan, const Operation& operation) {
  std::vector<Range> ranges;
  for (const Operand& operand : operation.operands) {
    const std::int64_t bytes = operand_bytes(program, operand);
    const std::int64_t first = plan.offset[static_cast<std::size_t>(operand.tensor)];
    if (bytes < Cache::line_bytes) { continue; }  // vectors: next to nothing
    ranges.push_back({first / Cache::line_bytes, bytes / Cache::line_bytes, operand.access});
  }
  return ranges;
}

std::int64_t sweep(Cache& cache, const std::vector<Range>& ranges, Sweep order) {
  std::int64_t moved = 0, steps = 0;
  for (const Range& range : ranges) { steps = std::max(steps, range.count); }
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t step = order == Sweep::ascending ? i : steps - 1 - i;
    for (const Range& range : ranges) {
      const std::int64_t begin = step * range.count / steps, end = (step + 1) * range.count / steps;
      for (std::int64_t line = begin; line < end; ++line) {
        moved += cache.touch(range.first + line, range.access);
      }
    }
  }
  return moved;
}

}  // namespace

std::vector<std::int64_t> memory_bytes(const StepProgram& program, std::int64_t cache_bytes) {
  const MemoryPlan plan = plan_memory(program, 0);
  Cache cache(cache_bytes);
  std::vector<std::int64_t> bytes;
  for (int step = 0; step < 2; ++step) {
    bytes.clear();
    program.for_each([&](const Operation& operation, int) {
      bytes.push_back(sweep(cache, ranges_of(program, plan, operation), operation.sweep));
    });
  }
  return bytes;
}

}  // namespace virtrain::resnet50::cuda
