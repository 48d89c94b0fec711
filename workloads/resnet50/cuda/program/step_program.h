#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/program/operations.h"
#include "workloads/resnet50/model.h"

/// A training step as data: tensors, and the operations on them in order. Whoever runs it (the GPU's
/// executor, the tests' interpreter) needs no choice of its own: how much is fused decides which operations
/// are here.

namespace virtrain::resnet50::cuda {

// Where the parameters lie in device memory, as plain data: no CUDA here.

/// Two blocks of memory: one update, and one all-reduce of a range, serve many parameters at once.
enum class ParameterGroup {
  weights,  ///< what cuDNN multiplies: its copy and its gradients have the activations' type
  vectors,  ///< scales, shifts and the bias: fp32 everywhere
};

/// One parameter's part of its group's block.
struct ParameterSlice {
  std::size_t parameter = 0;  ///< index into parameters(model)
  ParameterGroup group = ParameterGroup::weights;
  std::int64_t first = 0;  ///< element in the block
  std::int64_t count = 0;  ///< elements as stored: the images' channels are padded
};

/// Slices begin at multiples of this: 128 bytes in 16 bits. The elements between them stay zero.
inline constexpr std::int64_t slice_alignment = 64;

struct ParameterLayout {
  std::vector<ParameterSlice> slices;  ///< in the order in which the backward pass finishes gradients
  std::int64_t weights_count = 0;      ///< elements of the block
  std::int64_t vectors_count = 0;

  std::int64_t count(ParameterGroup group) const {
    return group == ParameterGroup::weights ? weights_count : vectors_count;
  }
};
/// The model's order reversed.
ParameterLayout lay_out_parameters(const Model& model);

/// Torch's K, C, R, S to K, R, S, C as cuDNN wants it, channels padded with zeros; others as they are.
std::vector<float> to_device_order(const Parameter& parameter, std::span<const float> plain);
/// And back, without the padding.
std::vector<float> to_plain_order(const Parameter& parameter, std::span<const float> stored);

enum class Element { activation, fp32, int32, byte, backward_factors, loss_scale, sgd_rule, time };
std::int64_t bytes_of(Element element, Numeric numeric);

struct ProgramTensor {
  std::string name;  ///< "layer1.0.conv1.y"
  Element element = Element::activation;
  std::int64_t count = 0;        ///< elements, of all micro-batches
  bool persistent = false;       ///< keeps its value over steps; else it lives from its first to its last use
  bool per_micro_batch = false;  ///< micro-batch m has the m-th part of it
  Ref view_of = no_tensor;       ///< part of that tensor, from element `first` on
  std::int64_t first = 0;
};

struct StepSettings {
  int batch = 1;  ///< images of a micro-batch
  Numeric numeric = Numeric::fp32;
  Fusion fusion = Fusion::none;
  std::set<std::string> unfused = {};  ///< sites (fusion_site) that are left apart at this level
  int accumulate_steps = 1;            ///< micro-batches
  int ranks = 1;
  std::int64_t bucket_bytes = 25LL << 20;
  bool stamps = false;  ///< note when the parts of the step begin and end

  bool fuses(FusionKind kind, const Convolution& convolution) const {
    // Without the mask that only an activation on its own leaves, the gradient has to pass the ReLU again.
    if (kind == FusionKind::norm && !fuses(FusionKind::norm_gradient, convolution)) { return false; }
    return fusion >= level_of(kind) && !unfused.contains(fusion_site(kind, convolution));
  }
};

/// A part of the step between two stamps.
struct StampedSpan {
  std::string name;  ///< "forward", "all-reduce weights 0"
  bool communicates = false;
  int begin = 0, end = 0;
};

/// Tensors that are read or written from outside.
struct StepHandles {
  Ref images =
      no_tensor;  ///< NHWC with padded_image_channels, activations' type, per micro-batch: each part padded
  Ref labels = no_tensor;  ///< int32, per micro-batch
  Ref losses = no_tensor;  ///< fp32, one per micro-batch
  Ref loss_scale = no_tensor, rule = no_tensor;
  Ref stamps = no_tensor;  ///< times, one for each stamp
  /// By ParameterGroup: whole blocks. The copy is no_tensor where the graphs read the masters themselves.
  struct Block {
    Ref masters = no_tensor, velocity = no_tensor, copy = no_tensor;
    Ref gradient = no_tensor;  ///< what the update reads: summed over micro-batches, the mean of all ranks
  };
  Block weights, vectors;
  std::vector<NormRefs> norms;  ///< in the order of norms(model)
};

struct StepProgram {
  StepSettings settings;
  ParameterLayout parameters;
  std::vector<ProgramTensor> tensors;
  std::vector<Operation> micro_batch;  ///< run for each micro-batch
  std::vector<Operation> update;       ///< then once
  StepHandles handles;
  std::vector<StampedSpan> spans;  ///< empty without stamps
  /// Stamps around the wait for the ranks' means, which computing does not hide.
  int exposed_begin = 0, exposed_end = 0;

  const ProgramTensor& at(Ref tensor) const { return tensors[static_cast<std::size_t>(tensor)]; }
  /// Runs visit(operation, micro-batch) in order.
  void for_each(const std::function<void(const Operation&, int)>& visit) const;
};

/// In which type a tensor of activations or of fp32 is handed to what takes any.
Numeric numeric_of(const StepProgram& program, Ref tensor);

/// Initial loss scale of fp16 for each rank, since each has its share of the gradient only; the other types
/// have fp32's range.
float initial_loss_scale(const StepSettings& settings);

/// Sums that one rank contributes to in a step, in order.
std::vector<AllReduce> reductions_of(const StepProgram& program);

/// Each distinct graph of one training step, in the order of first use.
std::vector<GraphSpec> graphs_of(const StepProgram& program);

// Bytes that the operations of a step have to move through the GPU's memory, from its program alone.

/// Bytes that an operation reads and writes in one micro-batch: each of its tensors once for each way,
/// nothing from caches, no workspace. A convolution counts its whole input, also where its stride leaves some
/// of it unread.
std::int64_t traffic_bytes(const StepProgram& program, const Operation& operation);

/// Bytes of one operand.
std::int64_t operand_bytes(const StepProgram& program, const Operand& operand);

}  // namespace virtrain::resnet50::cuda
