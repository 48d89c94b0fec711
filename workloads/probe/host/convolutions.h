#pragma once

#include <vector>

#include "workloads/probe/figure.h"

namespace virtrain::probe {

struct ConvolutionSetting {
  int batch_size = 16;
  int image_size = 224;
  int repetitions = 10;
};

/// ResNet-50's 53 convolutions as oneDNN does them alone, in the layouts it likes best: for each type this
/// processor trains in (float, bfloat16) three figures, `convolutions_forward`, `convolutions_backward_data`
/// and `convolutions_backward_weights`. `seconds` is the sum over the model of each convolution's best time,
/// `value` the rate in FLOP/s (two for a multiply-add). It is what a step on that library cannot undercut,
/// before any other pass over the activations. The three directions are checked against each other: <conv(x,
/// w), g> = <x, data(g, w)> = <w, weights(x, g)>. Throws Error(host_unable) where the build has no library
/// for it.
std::vector<Figure> measure_convolutions(const ConvolutionSetting& setting);

}  // namespace virtrain::probe
