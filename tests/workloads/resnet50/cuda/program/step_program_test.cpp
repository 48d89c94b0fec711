#include "workloads/resnet50/cuda/program/step_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"
#include "workloads/resnet50/cuda/writing/step_emitter.h"
#include "workloads/resnet50/model.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

const std::vector<Fusion> levels{Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full};

int count_of(const StepProgram& program, const std::string& kernel) {
  int count = 0;
  for (const auto* const operations : {&program.micro_batch, &program.update}) {
    for (const Operation& operation : *operations) { count += operation.kernel == kernel ? 1 : 0; }
  }
  return count;
}

/// A tensor's base and the elements of it that a view covers.
struct Range {
  Ref base;
  std::int64_t first, end;
  bool overlaps(const Range& other) const {
    return base == other.base && first < other.end && other.first < end;
  }
};
Range range_of(const StepProgram& program, Ref tensor) {
  const ProgramTensor& t = program.at(tensor);
  return t.view_of == no_tensor ? Range{tensor, 0, t.count} : Range{t.view_of, t.first, t.first + t.count};
}

}  // namespace

TEST_CASE("what a step reads and does not keep over steps, it has written before") {
  const Fusion fusion = GENERATE(from_range(levels));
  const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::fp16, fusion, 2));
  std::set<Ref> written;
  program.for_each([&](const Operation& operation, int) {
    for (const auto& [tensor, access, touched_elements] : operation.operands) {
      if (access == Access::write) {
        written.insert(tensor);
      } else if (!program.at(tensor).persistent && written.count(tensor) == 0) {
        FAIL(operation.name << " reads " << program.at(tensor).name << " too early");
      }
    }
  });
  CHECK(written.size() > 500);
}

TEST_CASE("each parameter gets its gradient once in a micro-batch") {
  const Fusion fusion = GENERATE(from_range(levels));
  const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::fp16, fusion));
  std::map<std::string, int> writers;
  for (const Operation& operation : program.micro_batch) {
    for (const auto& [tensor, access, touched_elements] : operation.operands) {
      const std::string& name = program.at(tensor).name;
      if (access == Access::write && name.starts_with("grad.")) { ++writers[name]; }
    }
  }
  for (const Parameter& parameter : parameters(build_model(224, 1000))) {
    CAPTURE(parameter.name);
    CHECK(writers["grad." + parameter.name] == 1);
  }
}

TEST_CASE("levels of fusion leave less to our kernels") {
  const auto program = [](Fusion fusion) {
    return build_step(build_model(224, 1000), settings(8, Numeric::fp16, fusion));
  };
  CHECK(count_of(program(Fusion::none), "add") == 16);
  CHECK(count_of(program(Fusion::addition), "add") == 0);
  CHECK(count_of(program(Fusion::addition), "norm_sums") == 53);
  CHECK(count_of(program(Fusion::statistics), "norm_sums") == 1);  // the stem's
  // A shortcut's norm is applied with its block's last, the stem's with the max-pool.
  CHECK(count_of(program(Fusion::statistics), "norm_apply") == 48);
  CHECK(count_of(program(Fusion::full), "norm_apply") == 16);
  CHECK(count_of(program(Fusion::statistics), "norm_backward_sums") == 52);
  CHECK(count_of(program(Fusion::statistics), "pooled_norm_backward_sums") == 1);
  CHECK(count_of(program(Fusion::full), "norm_backward_sums") == 1);  // the last block's end
  CHECK(count_of(program(Fusion::full), "norm_finalize") == 52);
}

TEST_CASE("the gradient between blocks comes masked, and nobody writes it again") {
  const auto masked = [](Fusion fusion) {
    const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::bf16, fusion));
    int written = 0;
    for (const Operation& operation : program.micro_batch) {
      if (operation.kernel != std::string("norm_backward_apply")) { continue; }
      int outputs = 0;
      for (const Operand& operand : operation.operands) {
        outputs += operand.access == Access::write ? 1 : 0;
      }
      written += outputs - 1;
    }
    return written;
  };
  CHECK(masked(Fusion::none) == 12);     // of each block without projection
  CHECK(masked(Fusion::addition) == 1);  // of the last one
}

TEST_CASE("a shape whose fused graph is slower is left apart, and only it") {
  StepSettings mixed = settings(8, Numeric::fp16, Fusion::full);
  const Model model = build_model(224, 1000);
  mixed.unfused = {"statistics 64->256 56x56 k1 s1", "norm 128->128 28x28 k3 s1",
                   "tail 1024->256 14x14 k1 s1", "mask 1024->256 14x14 k1 s1"};
  const StepProgram program = build_step(model, mixed);
  // Of the shortcut; the other convolutions of that shape read what is not normalized, and have their sums.
  CHECK(count_of(program, "norm_sums") == 2);
  CHECK(count_of(program, "norm_apply") == 16 + 3);  // before the 3x3 of the second stage's later blocks
  std::map<GraphKind, int> kinds;
  for (const Operation& operation : program.micro_batch) {
    if (operation.graph) { ++kinds[operation.graph->spec.kind]; }
  }
  CHECK(kinds.at(GraphKind::backward_data_add) == 1 + 5);
  CHECK(kinds.at(GraphKind::norm_backward_weights) == 32 - 3);
}

TEST_CASE(
    "only fp16 looks for overflow, only several micro-batches are added up, only several ranks reduce") {
  StepSettings wanted = settings(8, Numeric::fp16, Fusion::none);
  StepProgram program = build_step(build_model(64, 1000), wanted);
  CHECK(count_of(program, "find_overflow") == 2);
  CHECK(count_of(program, "accumulate") + count_of(program, "all_reduce") + count_of(program, "await") == 0);
  wanted.numeric = Numeric::bf16;
  wanted.accumulate_steps = 3;
  wanted.ranks = 2;
  program = build_step(build_model(64, 1000), wanted);
  CHECK(count_of(program, "find_overflow") == 0);
  CHECK(count_of(program, "accumulate") == count_of(program, "all_reduce"));
  int accumulated = 0, widened = 0;
  program.for_each([&](const Operation& operation, int micro) {
    if (operation.kernel == std::string("widen")) {
      ++widened;
      CHECK(micro == 0);
    }
    accumulated += operation.kernel == std::string("accumulate") ? 1 : 0;
    if (operation.reduction) { CHECK(micro == 2); }
  });
  CHECK(accumulated == 2 * widened);
}

TEST_CASE("a bucket is reduced once, when all its gradients are written and before the update reads them") {
  const Fusion fusion = GENERATE(from_range(levels));
  const int accumulate_steps = GENERATE(1, 2);
  StepSettings wanted = settings(8, Numeric::fp16, fusion, accumulate_steps);
  wanted.ranks = 2;
  wanted.bucket_bytes = 8 << 20;
  const StepProgram program = build_step(build_model(224, 1000), wanted);
  std::vector<Range> reduced;
  bool awaited = false;
  std::int64_t elements = 0;
  int early = 0;  // reductions that start before the backward pass has ended
  program.for_each([&](const Operation& operation, int) {
    if (const auto& reduce = operation.reduction) {
      reduced.push_back({reduce->values, reduce->first, reduce->first + reduce->count});
      elements += reduce->count;
      return;
    }
    if (operation.kernel == std::string("await")) {
      awaited = true;
      return;
    }
    if (operation.graph) { early = static_cast<int>(reduced.size()); }
    for (const auto& [tensor, access, touched_elements] : operation.operands) {
      if (awaited || operation.pass == std::string("accumulate")) { continue; }
      if (accumulate_steps > 1 && access == Access::read) { continue; }
      const Range touched = range_of(program, tensor);
      for (const Range& range : reduced) {
        if (range.overlaps(touched)) { FAIL(operation.name << " touches what is being reduced"); }
      }
    }
  });
  CHECK(awaited);
  CHECK(elements == program.parameters.weights_count + program.parameters.vectors_count);
  CHECK(early >= 3);
}

TEST_CASE("what a step reduces, told beforehand, is all gradients in the type in which they travel") {
  StepSettings wanted = settings(8, Numeric::fp16, Fusion::none);
  CHECK(reductions_of(build_step(build_model(64, 10), wanted)).empty());
  wanted.ranks = 2;
  wanted.accumulate_steps = GENERATE(1, 2);
  const StepProgram program = build_step(build_model(64, 10), wanted);
  const std::vector<AllReduce> reductions = reductions_of(program);
  REQUIRE(reductions.size() > 2);
  CHECK(reductions.back().count == program.parameters.vectors_count);
  CHECK(reductions.back().numeric == Numeric::fp32);
  std::int64_t weights = 0;
  for (std::size_t i = 0; i + 1 < reductions.size(); ++i) {
    weights += reductions[i].count;
    CHECK(reductions[i].numeric == (wanted.accumulate_steps == 1 ? Numeric::fp16 : Numeric::fp32));
  }
  CHECK(weights == program.parameters.weights_count);
}

TEST_CASE("stamps note when each part of a step begins and ends, each stamp once") {
  StepSettings wanted = settings(8, Numeric::bf16, Fusion::addition, 2);
  wanted.ranks = 2;
  wanted.stamps = true;
  const StepProgram program = build_step(build_model(64, 1000), wanted);
  std::vector<int> order;
  program.for_each([&](const Operation& operation, int) {
    if (operation.moment) { order.push_back(operation.moment->index); }
    if (const auto& reduce = operation.reduction) {
      order.push_back(reduce->begin.index);
      order.push_back(reduce->end.index);
    }
  });
  std::map<std::string, StampedSpan> spans;
  for (const StampedSpan& span : program.spans) {
    spans[span.name] = span;
    const auto place = [&](int index) { return std::find(order.begin(), order.end(), index); };
    CHECK(place(span.begin) < place(span.end));
  }
  CHECK(spans.at("forward").end == spans.at("backward").begin);
  CHECK(spans.at("backward").end == program.exposed_begin);
  CHECK(spans.at("update").begin == program.exposed_end);
  CHECK(spans.at("earlier micro-batches").end == spans.at("forward").begin);
  CHECK(spans.at("all-reduce vectors").communicates);
  std::sort(order.begin(), order.end());
  std::vector<int> each(static_cast<std::size_t>(program.at(program.handles.stamps).count));
  std::iota(each.begin(), each.end(), 0);
  CHECK(order == each);
}

TEST_CASE("buckets take whole slices until they are full or leave but little") {
  const std::vector<std::int64_t> ends{10, 30, 35, 100, 101};
  CHECK(plan_buckets(ends, 25) == std::vector<Bucket>{{0, 30, 1}, {30, 70, 3}, {100, 1, 4}});
  CHECK(plan_buckets(ends, 80) == std::vector<Bucket>{{0, 100, 3}, {100, 1, 4}});
  CHECK(plan_buckets(std::vector<std::int64_t>{40, 80, 90, 95, 100}, 80) ==
        std::vector<Bucket>{{0, 80, 1}, {80, 10, 2}, {90, 10, 4}});
  CHECK(plan_buckets(std::vector<std::int64_t>{80, 89, 90}, 80) ==
        std::vector<Bucket>{{0, 80, 0}, {80, 10, 2}});
  CHECK(plan_buckets(std::vector<std::int64_t>{80, 100}, 80) == std::vector<Bucket>{{0, 80, 0}, {80, 20, 1}});
  CHECK(plan_buckets(ends, 1) ==
        std::vector<Bucket>{{0, 10, 0}, {10, 20, 1}, {30, 5, 2}, {35, 65, 3}, {100, 1, 4}});
  CHECK(plan_buckets(ends, 1000) == std::vector<Bucket>{{0, 101, 4}});
  CHECK(plan_buckets({}, 10).empty());
}

TEST_CASE("what ResNet-50 reduces last is little, and reduced in few pieces") {
  // Kilobytes, and the graph that completes them; at the end those of the vectors. In 16 bits: the last layer
  // and stage 4, stage 3, the rest.
  using Sent = std::vector<std::string>;
  const auto sent = [](Numeric numeric, int accumulate_steps = 1) {
    StepSettings wanted = settings(8, numeric, Fusion::none, accumulate_steps);
    wanted.ranks = 2;
    const StepProgram program = build_step(build_model(224, 1000), wanted);
    Sent all;
    std::string before;
    for (const Operation& operation : program.micro_batch) {
      const auto& reduce = operation.reduction;
      if (operation.graph) { before = operation.name; }
      if (!reduce) { continue; }
      const Element element = program.at(reduce->values).element;
      all.push_back(std::to_string(reduce->count * bytes_of(element, numeric) / 1000) + " " + before);
    }
    return all;
  };
  const Sent in_16_bits{"28213 layer4.0.conv3 backward weights", "19660 layer3.0.conv2 backward weights",
                        "3138 conv1 backward weights", "216 conv1 backward weights"};
  CHECK(sent(Numeric::fp16) == in_16_bits);
  CHECK(sent(Numeric::bf16) == in_16_bits);
  const Sent in_32_bits{"30212 layer4.1.conv3 backward weights", "26214 layer4.0.conv3 backward weights",
                        "28311 layer3.2.conv2 backward weights", "14024 layer2.1.conv3 backward weights",
                        "3261 conv1 backward weights",           "216 conv1 backward weights"};
  CHECK(sent(Numeric::fp32) == in_32_bits);
  CHECK(sent(Numeric::fp16, 2) == in_32_bits);
}

TEST_CASE("parameters lie in two blocks, apart, in the order of the backward pass") {
  const Model model = build_model(224, 1000);
  const ParameterLayout layout = lay_out_parameters(model);
  const std::vector<Parameter> all = parameters(model);
  REQUIRE(layout.slices.size() == all.size());
  std::map<ParameterGroup, std::int64_t> end;
  std::int64_t stored = 0;
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const ParameterSlice& slice = layout.slices[i];
    CHECK(slice.parameter == all.size() - 1 - i);
    CHECK(slice.first >= end[slice.group]);
    CHECK(slice.first % slice_alignment == 0);
    end[slice.group] = slice.first + slice.count;
    stored += slice.count;
  }
  CHECK(stored == parameter_count(model) + 64LL * 49);  // the images' fourth channel
  CHECK(layout.vectors_count < 60'000);
  CHECK(layout.weights_count >= end[ParameterGroup::weights]);
}

TEST_CASE("parameters go to the device's order and back, the fourth channel zero") {
  const Model model = build_model(64, 10);
  const std::vector<Parameter> all = parameters(model);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{6}, all.size() - 2}) {
    const std::vector<float> plain = initial_value(all[i], i, 1, 1);
    CHECK(to_plain_order(all[i], to_device_order(all[i], plain)) == plain);
  }
  std::vector<float> numbers(static_cast<std::size_t>(all[0].count()));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  const std::vector<float> stored = to_device_order(all[0], numbers);
  CHECK(stored.size() == std::size_t{64} * 49 * 4);
  CHECK(stored[0] == 1);
  CHECK(stored[1] == 50);  // channel 1 of the first tap
  CHECK(stored[3] == 0);
  CHECK(stored[4] == 2);
}

TEST_CASE("the first graph takes the padded images, at each level") {
  for (const Fusion fusion : levels) {
    const std::vector<GraphSpec> graphs = graphs_of_step(small_model(), 4, Numeric::fp16, fusion);
    CHECK(graphs.front().in_channels == padded_image_channels);
  }
}
