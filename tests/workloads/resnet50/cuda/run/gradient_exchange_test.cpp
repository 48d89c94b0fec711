#include "workloads/resnet50/cuda/run/gradient_exchange.h"

#include <memory>
#include <vector>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

// gradient_exchange.cpp with memory of the host for the GPU's, and streams and events that do nothing.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

struct HostsGpu {
  std::vector<std::unique_ptr<std::byte[]>> taken;
  int freed = 0;
  int ended = 0;  ///< streams and events, which wait for nothing
  bool is_done = false;
};
HostsGpu& gpu() {
  static HostsGpu one;
  return one;
}

}  // namespace

namespace virtrain {

DeviceMemory allocate_device(std::size_t bytes) {
  return DeviceMemory(gpu().taken.emplace_back(std::make_unique<std::byte[]>(bytes)).get());
}
void FreeDevice::operator()(std::byte* /*pointer*/) const {
  ++gpu().freed;
}
GpuStream::GpuStream(Priority /*priority*/) {}
GpuStream::~GpuStream() {
  ++gpu().ended;
}
GpuEvent::GpuEvent(Timing /*timing*/) {}
GpuEvent::~GpuEvent() {
  ++gpu().ended;
}
void GpuEvent::record(CUstream_st* /*stream*/) const {}
bool GpuEvent::is_done() const {
  return gpu().is_done;
}
void GpuEvent::wait() const {}

}  // namespace virtrain

namespace {

/// Counts what is reduced; its peer is lost where `is_lost`.
class Exchange : public GradientExchange {
 public:
  explicit Exchange(bool is_lost) : is_lost_(is_lost) {}
  void sum(void* values, std::int64_t /*count*/, Numeric /*numeric*/, CUstream_st* /*stream*/) override {
    CHECK(values == gpu().taken.back().get());
    ++reduced;
  }
  void check() override {
    if (is_lost_) { throw Error("reduce gradients", ErrorCode::io, "a peer is lost"); }
    gpu().is_done = true;
  }
  std::size_t reduced = 0;

 private:
  bool is_lost_;
};

StepProgram reducing_program() {
  StepSettings wanted = settings(2, Numeric::fp16, Fusion::none);
  wanted.ranks = 2;
  return build_step(small_model(), wanted);
}

}  // namespace

TEST_CASE("ranks connect by all that a step reduces, in memory that is free afterwards") {
  gpu() = {};
  Exchange exchange(false);
  const StepProgram program = reducing_program();
  connect(exchange, program);
  CHECK(exchange.reduced == reductions_of(program).size());
  CHECK(gpu().taken.size() == 1);
  CHECK(gpu().freed == 1);
  CHECK(gpu().ended == 2);
}

TEST_CASE("a peer that is lost while ranks connect is told before anything waits for it") {
  gpu() = {};
  Exchange exchange(true);
  CHECK_THROWS_WITH(connect(exchange, reducing_program()), virtrain::test::Contains("a peer is lost"));
  CHECK(gpu().taken.size() == 1);
  CHECK(gpu().ended == 2);
  CHECK(gpu().freed == 0);  // it would wait for kernels that wait for the peer
}
