#include "workloads/resnet50/model.h"

#include <set>

#include "tests/support/catch.h"

using namespace virtrain::resnet50;

TEST_CASE("the model has ResNet-50's size") {
  const Model model = build_model(224, 1000);
  CHECK(parameter_count(model) == 25'557'032);  // torchvision.models.resnet50
  CHECK(units(model).size() == 53);
  CHECK(model.blocks.size() == 16);
  CHECK(model.pool_size == 56);
  CHECK(model.final_size == 7);
  double flop = 2.0 * model.features * model.classes;
  for (const Unit* unit : units(model)) {
    const Convolution& c = unit->convolution;
    flop += 2.0 * c.out_size() * c.out_size() * c.kernel * c.kernel * c.in_channels * c.out_channels;
  }
  CHECK(flop == Approx(8.178e9).epsilon(1e-3));
}

TEST_CASE("names and shapes are torchvision's") {
  const std::vector<Parameter> all = parameters(build_model(224, 1000));
  CHECK(all.size() == 161);
  std::set<std::string> names;
  for (const Parameter& parameter : all) { names.insert(parameter.name); }
  CHECK(names.size() == all.size());
  CHECK(all.front().name == "conv1.weight");
  CHECK(all.front().shape == std::vector<std::int64_t>{64, 3, 7, 7});
  CHECK(all.back().name == "fc.bias");
  for (const char* name : {"layer1.0.downsample.0.weight", "layer1.0.downsample.1.bias",
                           "layer3.5.conv2.weight", "layer4.2.bn3.weight", "fc.weight"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("v1.5: the 3x3 of a down-sampling block has the stride") {
  const Model model = build_model(224, 1000);
  const Block& block = model.blocks[3];  // layer2.0
  CHECK(block.units[0].convolution.stride == 1);
  CHECK(block.units[1].convolution.stride == 2);
  REQUIRE(block.shortcut);
  CHECK(block.shortcut->convolution.stride == 2);
  CHECK_FALSE(model.blocks[4].shortcut);
}

TEST_CASE("odd image sizes give whole feature maps") {
  for (const int size : {32, 33, 63, 65, 97, 224, 225}) {
    const Model model = build_model(size, 10);
    CAPTURE(size);
    CHECK(model.final_size == (size + 31) / 32);
    for (const Block& block : model.blocks) {
      if (block.shortcut) {
        CHECK(block.shortcut->convolution.out_size() == block.units[2].convolution.out_size());
      }
    }
  }
}
