#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "workloads/common/onednn.h"
#include "workloads/resnet50/flags.h"

namespace virtrain::resnet50::cpu {

using onednn::Layout;
using Tensor = dnnl::memory;

/// Precisions this processor can train in.
std::vector<Precision> possible_precisions();
std::string onednn_version();

/// Uses of scratch memory: one buffer each, grown to the largest request, its contents valid until its next
/// use.
enum class Scratch {
  source,
  weights,
  destination,
  master,
  gradient_a,
  gradient_b,
  gradient_c,
  gradient_d,
  winograd_from,
  winograd_to,
  winograd_weights,
  pixel_pairs,
};

/// Memory of floats or anything else, aligned to cache lines, zeroed by all threads (first touch).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes);
  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
  std::size_t bytes_ = 0;
};

/// oneDNN's engine and stream, scratch memory, and reorders.
class Device {
 public:
  explicit Device(Precision precision);

  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }
  Precision precision() const { return precision_; }
  dnnl::memory::data_type activation_type() const;

  /// A tensor that lives as long as the device.
  Tensor allocate(const Layout& layout);
  /// A tensor in shared scratch memory.
  Tensor scratch(Scratch slot, const Layout& layout);
  void reorder(const Tensor& from, const Tensor& to);
  /// `tensor` itself if it has that layout and type, else a copy in scratch memory.
  Tensor in_layout(const Tensor& tensor, const Layout& layout, Scratch slot);

  /// Reorders of activations done so far: 0 where all operations agree on layouts.
  std::size_t activation_reorders() const { return activation_reorders_; }

 private:
  struct Reorder {
    Layout from;
    Layout to;
    dnnl::reorder primitive;
  };
  Precision precision_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<AlignedBuffer> owned_;
  std::map<Scratch, AlignedBuffer> scratch_;
  std::vector<Reorder> reorders_;
  std::size_t activation_reorders_ = 0;
};

/// Elements including the padding of blocked layouts.
std::size_t stored_elements(const Layout& layout);

}  // namespace virtrain::resnet50::cpu
