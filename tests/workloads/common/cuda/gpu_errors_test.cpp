#include "workloads/common/cuda/gpu_errors.h"

#include <cuda_runtime_api.h>

#include "tests/support/catch.h"

using namespace virtrain;

namespace {

constexpr auto contained = static_cast<cudaError_t>(226);  // cudaErrorContained, not in each toolkit

}  // namespace

TEST_CASE("a missing driver and an old one are told apart, with the least that serves") {
  CHECK_THAT(driver_words(0, 13000), virtrain::test::StartsWith("no NVIDIA driver here") &&
                                         virtrain::test::Contains("CUDA 13.0 needs driver 580.65 or newer"));
  CHECK_THAT(driver_words(12040, 13000), virtrain::test::Contains("too old: it serves CUDA 12.4") &&
                                             virtrain::test::Contains("built with CUDA 13.0") &&
                                             virtrain::test::Contains("580.65"));
  CHECK_THAT(driver_words(11040, 12080),
             virtrain::test::Contains("CUDA 12.8") && virtrain::test::Contains("525.60"));
  // A driver of the same family starts, but compiles no newer PTX: 525.60 would be no help.
  CHECK_THAT(ptx_words(12000, 12080), virtrain::test::Contains("serves CUDA 12.0") &&
                                          virtrain::test::Contains("CUDA 12.8") &&
                                          !virtrain::test::Contains("525.60"));
}

TEST_CASE("each state of a GPU that prevents training is said with what to do") {
  const auto [status, code, words] = GENERATE(table<cudaError_t, ErrorCode, std::string>(
      {{cudaErrorNoDevice, ErrorCode::host_unable, "CUDA_VISIBLE_DEVICES"},
       {cudaErrorDevicesUnavailable, ErrorCode::busy, "exclusive compute mode"},
       {cudaErrorECCUncorrectable, ErrorCode::host_unable, "uncorrectable error"},
       {cudaErrorSystemNotReady, ErrorCode::host_unable, "fabric manager"},
       {cudaErrorSystemDriverMismatch, ErrorCode::host_unable, "different versions"},
       {cudaErrorNoKernelImageForDevice, ErrorCode::host_unable, "no code for this GPU"},
       {cudaErrorUnsupportedPtxVersion, ErrorCode::host_unable, "driver is too old"},
       {cudaErrorNvlinkUncorrectable, ErrorCode::host_unable, "NVLink"},
       {contained, ErrorCode::host_unable, "contained"},
       {cudaErrorDeviceNotLicensed, ErrorCode::host_unable, "no licence"},
       {cudaErrorInitializationError, ErrorCode::host_unable, "/dev/nvidia-uvm"},
       {cudaErrorOperatingSystem, ErrorCode::host_unable, "/dev/nvidia-uvm"},
       {cudaErrorStubLibrary, ErrorCode::host_unable, "stub"},
       {cudaErrorMpsServerNotReady, ErrorCode::host_unable, "MPS"},
       {cudaErrorMemoryAllocation, ErrorCode::host_unable, "smaller --batch_size"},
       {cudaErrorIllegalAddress, ErrorCode::io, "illegal memory access"}}));
  const Error error = gpu_error("train", status);
  CHECK(error.code() == code);
  CHECK_THAT(error.message(), virtrain::test::Contains(words) && virtrain::test::Contains("CUDA: "));
  CHECK_THROWS_AS(check_gpu("train", status), Error);
  CHECK_NOTHROW(check_gpu("train", cudaSuccess));
}

TEST_CASE("a fault that lasts is told apart from a call that failed") {
  for (const cudaError_t lasting : {cudaErrorIllegalAddress, cudaErrorNvlinkUncorrectable, contained}) {
    CHECK_THROWS_AS(check_gpu("train", lasting), GpuFault);
  }
  CHECK_THROWS_WITH(check_gpu("train", cudaErrorIllegalAddress), virtrain::test::StartsWith("train: CUDA: "));
  try {
    check_gpu("allocate", cudaErrorMemoryAllocation);
    FAIL("nothing was thrown");
  } catch (const GpuFault&) { FAIL("the next allocation may be smaller"); } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
  }
}
