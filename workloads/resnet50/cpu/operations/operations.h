#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/resnet50/cpu/operations/device.h"

/// The operations of the network on oneDNN, each usable alone. Layouts are oneDNN's choice (`any`); an
/// operand that comes in another layout is reordered into scratch memory, so results never depend on who made
/// the operand.
namespace virtrain::resnet50::cpu {

struct ConvolutionShape {
  int batch = 1;
  int in_channels = 1;
  int out_channels = 1;
  int in_size = 1;
  int kernel = 1;
  int stride = 1;
  int padding = 0;

  int out_size() const { return (in_size + 2 * padding - kernel) / stride + 1; }
};

class WeightsGradient;
class WinogradConvolution;

/// Convolution without bias. Master weights and their gradients are fp32, in the layout in which the
/// gradients come.
class ConvolutionOperation {
 public:
  ConvolutionOperation(Device& device, const ConvolutionShape& shape, bool input_gradient);
  ~ConvolutionOperation();

  Layout source_layout() const { return forward_descriptor_.src_desc(); }
  Layout destination_layout() const { return forward_descriptor_.dst_desc(); }
  Layout master_layout() const { return weights_descriptor_.diff_weights_desc(); }

  /// In fewer multiplications (winograd.h), not by oneDNN.
  bool is_winograd() const { return winograd_ != nullptr; }

  void forward(const Tensor& source, const Tensor& master, const Tensor& destination);
  void backward_weights(const Tensor& source, const Tensor& destination_gradient,
                        const Tensor& master_gradient);
  void backward_data(const Tensor& destination_gradient, const Tensor& master, const Tensor& source_gradient);

 private:
  Device& device_;
  dnnl::convolution_forward::primitive_desc forward_descriptor_;
  dnnl::convolution_backward_weights::primitive_desc weights_descriptor_;
  dnnl::convolution_backward_data::primitive_desc data_descriptor_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights backward_weights_;
  dnnl::convolution_backward_data backward_data_;
  std::unique_ptr<WinogradConvolution> winograd_;      ///< does it where it serves
  std::unique_ptr<WeightsGradient> weights_gradient_;  ///< as well
};

/// Batch normalization with the batch's statistics, and a fused ReLU if asked for.
class BatchNormOperation {
 public:
  BatchNormOperation(Device& device, const Layout& layout, bool relu);

  void forward(const Tensor& source, const Tensor& scale, const Tensor& shift, const Tensor& destination);
  /// Differentiates the latest forward pass. `source_gradient` may be `destination_gradient` itself.
  void backward(const Tensor& source, const Tensor& scale, const Tensor& shift,
                const Tensor& destination_gradient, const Tensor& source_gradient,
                const Tensor& scale_gradient, const Tensor& shift_gradient);
  /// running = (1 - momentum) running + momentum batch, the variance unbiased, as torch does it.
  void update_running(float* mean, float* variance, double momentum) const;

  const Layout& layout() const { return layout_; }

 private:
  Device& device_;
  Layout layout_;
  dnnl::batch_normalization_forward::primitive_desc forward_descriptor_;
  dnnl::batch_normalization_forward forward_;
  dnnl::batch_normalization_backward backward_;
  Tensor mean_;
  Tensor variance_;
  Tensor workspace_;
  bool relu_;
};

/// Pooling over square windows.
class PoolOperation {
 public:
  enum class Kind { maximum, average };
  PoolOperation(Device& device, Kind kind, const Layout& source, int out_size, int kernel, int stride,
                int padding);

  Layout destination_layout() const { return forward_descriptor_.dst_desc(); }
  void forward(const Tensor& source, const Tensor& destination);
  void backward(const Tensor& destination_gradient, const Tensor& source_gradient);

 private:
  Device& device_;
  dnnl::pooling_forward::primitive_desc forward_descriptor_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
  Tensor workspace_;
};

/// The last layer: fp32 outputs (plain rows) from activations (plain rows), with bias.
class LinearOperation {
 public:
  LinearOperation(Device& device, int batch, int inputs, int outputs);

  Layout source_layout() const { return forward_descriptor_.src_desc(); }
  Layout destination_layout() const { return forward_descriptor_.dst_desc(); }
  Layout master_layout() const { return weights_descriptor_.diff_weights_desc(); }

  void forward(const Tensor& source, const Tensor& master, const Tensor& bias, const Tensor& destination);
  /// The gradient of the outputs is fp32 and is rounded to the activations' precision first.
  void backward(const Tensor& source, const Tensor& master, const Tensor& destination_gradient,
                const Tensor& source_gradient, const Tensor& master_gradient, const Tensor& bias_gradient);

 private:
  Device& device_;
  dnnl::inner_product_forward::primitive_desc forward_descriptor_;
  dnnl::inner_product_backward_weights::primitive_desc weights_descriptor_;
  dnnl::inner_product_backward_data::primitive_desc data_descriptor_;
  dnnl::inner_product_forward forward_;
  dnnl::inner_product_backward_weights backward_weights_;
  dnnl::inner_product_backward_data backward_data_;
};

/// Plain fp32 vector of a norm's scale, shift, mean or variance.
Layout vector_layout(std::int64_t length);

}  // namespace virtrain::resnet50::cpu
