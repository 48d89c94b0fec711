#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "workloads/resnet50/cuda/program/graph_spec.h"

/// One graph of cuDNN's alone: inputs for it, and in fp64 what it must write.
namespace virtrain::resnet50::cuda::plain {

using Operands = std::map<TensorId, std::vector<double>>;

/// The graphs of this kind at small shapes of all that the model has where the trainer takes that kind:
/// images and batches of odd size, the stem with its padded channel, the last layer.
std::vector<GraphSpec> operation_graphs(GraphKind kind, Numeric numeric);

/// The lowest level of fusion that takes it.
Fusion level_of(GraphKind kind);

/// How a tensor of the graph is stored; as many elements.
Numeric type_of(const GraphSpec& spec, TensorId id);
std::size_t count_of(const GraphSpec& spec, TensorId id);

/// As the GPU's arithmetic takes it: of tf32 the ten bits of mantissa that its multiplication reads.
double rounded_input(Numeric numeric, double value);
/// Always the same for the same graph, rounded as above: what an engine's own arithmetic loses is all that is
/// left to see.
Operands random_inputs(const GraphSpec& spec);
/// What the graph writes, as far as the trainer reads it.
Operands reference(const GraphSpec& spec, const Operands& inputs);

/// |actual - expected| / |expected|; infinite where a number is none.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected);
/// The most that an operation alone may be away. tf32 is stored in fp32, and its products of rounded inputs
/// are exact; but an engine that transforms its inputs before it multiplies (Winograd's) has the results
/// rounded to ten bits again, which is fp16's precision and so has fp16's rule.
double operation_tolerance(Numeric numeric);

}  // namespace virtrain::resnet50::cuda::plain
