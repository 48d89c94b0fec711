#pragma once

#include <string>

#include "workloads/resnet50/model.h"

namespace virtrain::resnet50 {

/// A network of ResNet-50's parts (stem, pool, blocks with and without projection, with and without stride)
/// that a plain interpreter trains in a moment.
inline Model small_model(int image_size = 32, int classes = 10) {
  Model model;
  model.image_size = image_size;
  model.classes = classes;
  const auto unit = [](const std::string& prefix, const std::string& number, int in, int out, int kernel,
                       int stride, int size, bool relu) {
    return Unit{{prefix + "conv" + number, in, out, kernel, stride, kernel / 2, size},
                {prefix + "bn" + number, out},
                relu};
  };
  model.stem = unit("", "1", 3, 8, 7, 2, image_size, true);
  model.pool_size = (model.stem.convolution.out_size() + 2 - 3) / 2 + 1;
  int size = model.pool_size, channels = 8;
  for (int b = 0; b < 4; ++b) {
    const int width = b < 2 ? 8 : 16, stride = b == 2 ? 2 : 1;
    const std::string prefix = "layer1." + std::to_string(b) + ".";
    Block block;
    block.units.push_back(unit(prefix, "1", channels, width, 1, 1, size, true));
    block.units.push_back(unit(prefix, "2", width, width, 3, stride, size, true));
    const int out_size = block.units[1].convolution.out_size();
    block.units.push_back(unit(prefix, "3", width, 4 * width, 1, 1, out_size, false));
    if (channels != 4 * width) {
      block.shortcut = Unit{{prefix + "downsample.0", channels, 4 * width, 1, stride, 0, size},
                            {prefix + "downsample.1", 4 * width},
                            false};
    }
    channels = 4 * width;
    size = out_size;
    model.blocks.push_back(block);
  }
  model.features = channels;
  model.final_size = size;
  return model;
}

}  // namespace virtrain::resnet50
