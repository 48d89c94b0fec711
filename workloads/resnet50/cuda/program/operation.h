#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"

/// One operation of a training step as data: what it reads and writes, to which pass it belongs, and how it
/// is launched. Whoever looks at a step (memory plan, traffic, executor, tests) needs to know no more of it.
namespace virtrain::resnet50::cuda {

/// Index into StepProgram::tensors.
using Ref = int;
inline constexpr Ref no_tensor = -1;

enum class Access { read, write };

/// A tensor of an operation; one that is changed is there twice.
struct Operand {
  Ref tensor = no_tensor;
  Access access = Access::read;
  std::int64_t elements = whole;  ///< that are touched in one micro-batch

  static constexpr std::int64_t whole = -1;
};

/// A cuDNN graph.
struct RunGraph {
  GraphSpec spec;
  std::vector<std::pair<TensorId, Ref>> tensors;
};

/// The GPU's clock in nanoseconds into one of the stamps.
struct Stamp {
  int index = 0;
  Ref stamps = no_tensor;  ///< none: nothing is noted
};

/// Starts the sum over all ranks, in place, beside what follows.
struct AllReduce {
  std::int64_t first = 0, count = 0;
  Ref values = no_tensor;
  Numeric numeric = Numeric::fp32;
  Stamp begin, end;  ///< beside it as well
};

/// Who runs a step: gives its tensors their places, and does what is no kernel of ours.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void run(const RunGraph& graph) = 0;
  virtual void start(const AllReduce& reduction) = 0;
  /// Until all that were started are done.
  virtual void await_reductions() = 0;
  virtual Numeric numeric() const = 0;  ///< of activations
  virtual Stream stream() const = 0;
  virtual const Kernels& kernels() const = 0;

  /// Where a tensor of the micro-batch that runs begins; null for no_tensor.
  template <typename T = void>
  T* at(Ref tensor) const {
    return tensor == no_tensor ? nullptr : reinterpret_cast<T*>(place(tensor));
  }

 private:
  virtual std::byte* place(Ref tensor) const = 0;
};

/// In which micro-batches of a step an operation runs.
enum class When { every, first, later, last };

struct Operation {
  std::string name = {};  ///< "layer1.0.conv1 forward": in traces
  When when = When::every;
  const char* kernel = "";  ///< as kernels.h names it, or "graph", "all_reduce", "await"
  const char* pass = "";    ///< the row that it belongs to where a step is taken apart: "norm apply"
  std::vector<Operand> operands = {};
  std::function<void(Runner&, Sweep)> launch = {};
  bool sweeps = false;  ///< can go through its tensors in either order
  Sweep sweep = Sweep::ascending;
  std::optional<RunGraph> graph = {};
  std::optional<AllReduce> reduction = {};
  std::optional<Stamp> moment = {};
  std::vector<std::string> sites = {};  ///< the choices of fusion on which it depends (fusion_site)

  /// Whether it is about other ranks: a rank that is alone leaves it out.
  bool communicates() const;
};

}  // namespace virtrain::resnet50::cuda
