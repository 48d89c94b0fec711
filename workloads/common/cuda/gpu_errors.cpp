#include "workloads/common/cuda/gpu_errors.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace virtrain {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// The first driver of each toolkit's family (NVIDIA's release notes, table "minor version compatibility").
const char* least_driver(int runtime_version) {
  return runtime_version >= 13000 ? "580.65" : "525.60";
}

/// cudaErrorContained, which toolkits of CUDA 12 do not all name; the driver says it all the same.
constexpr auto contained = static_cast<cudaError_t>(226);

std::string of_versions(std::string (*words)(int driver_version, int runtime_version)) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return words(driver, runtime);
}

/// Meaning of a status for whoever wants to compute; empty where CUDA's own words must do.
std::string meaning(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
      return "the driver shows no GPU (nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may hide them)";
    case cudaErrorDevicesUnavailable:
      return "the GPU is taken: another process has it in an exclusive compute mode, or the mode is "
             "'prohibited' (nvidia-smi -q -d COMPUTE; nvidia-smi -c DEFAULT shares it)";
    case cudaErrorECCUncorrectable:
      return "the GPU's memory has an uncorrectable error (nvidia-smi -q -d ECC,ROW_REMAPPER; reset the GPU, "
             "and have it replaced if it comes again)";
    case cudaErrorSystemNotReady:
      return "NVLink's switches are not ready: the fabric manager is not running or still starting "
             "(systemctl status nvidia-fabricmanager)";
    case cudaErrorSystemDriverMismatch:
      return "the kernel's driver and libcuda.so.1 have different versions (reboot or reload the driver)";
    case cudaErrorCompatNotSupportedOnDevice:
      return "CUDA's forward-compatibility library does not serve this GPU (install a newer driver)";
    case cudaErrorNvlinkUncorrectable:
      return "NVLink had an error that could not be corrected (nvidia-smi nvlink -e counts them; reset the "
             "GPUs that it joins)";
    case cudaErrorUnsupportedPtxVersion:
      return of_versions(ptx_words);
    case cudaErrorNoKernelImageForDevice:
      return "this executable has no code for this GPU (build it with a newer toolkit, or for its compute "
             "capability)";
    case cudaErrorMemoryAllocation:
      return "the GPU's memory is used up (nvidia-smi lists who has it; a smaller --batch_size or --bytes "
             "needs less)";
    case cudaErrorDeviceNotLicensed:
      return "the vGPU has no licence (nvidia-smi -q says so under vGPU Software Licensed Product)";
    case cudaErrorInitializationError:
    case cudaErrorOperatingSystem:
      return "the driver does not start (in a container or after a fresh boot /dev/nvidia-uvm may be "
             "missing: nvidia-modprobe -u -c 0; dmesg says more)";
    case cudaErrorStubLibrary:
      return "libcuda.so.1 is the toolkit's stub for linking, not the driver's (LD_LIBRARY_PATH leads to it)";
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
      return "the MPS server does not serve this process (CUDA_MPS_PIPE_DIRECTORY says which; echo quit | "
             "nvidia-cuda-mps-control ends it)";
    case cudaErrorInsufficientDriver:
      return of_versions(driver_words);
    default:
      return status == contained
                 ? "the GPU met an error of its hardware, or of NVLink, and contained it to this process "
                   "(nvidia-smi -q -d ECC,ROW_REMAPPER and dmesg, NVRM: Xid, say more; start again)"
                 : "";
  }
}

/// Those of which CUDA's manual says that the process must end before CUDA is used again.
bool lasts(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
      return true;
    default:
      return status == contained;
  }
}

ErrorCode code_of(cudaError_t status) {
  if (status == cudaErrorDevicesUnavailable) { return ErrorCode::busy; }
  return meaning(status).empty() ? ErrorCode::io : ErrorCode::host_unable;
}

}  // namespace

std::string driver_words(int driver_version, int runtime_version) {
  if (driver_version == 0) {
    return fmt::format(
        "no NVIDIA driver here: libcuda.so.1 cannot be loaded (CUDA {} needs driver {} or newer; in a guest, "
        "the GPU must be passed through and the driver be in its image)",
        version_text(runtime_version), least_driver(runtime_version));
  }
  return fmt::format(
      "the driver is too old: it serves CUDA {}, this executable was built with CUDA {}, which needs driver "
      "{} or newer",
      version_text(driver_version), version_text(runtime_version), least_driver(runtime_version));
}

std::string ptx_words(int driver_version, int runtime_version) {
  return fmt::format(
      "the driver is too old for this code's PTX: it serves CUDA {}, the executable was built with CUDA {} "
      "(install a driver that serves that, or build it with machine code for this GPU)",
      version_text(driver_version), version_text(runtime_version));
}

Error gpu_error(const std::string& operation, int status) {
  const auto error = static_cast<cudaError_t>(status);
  const std::string words = meaning(error);
  const std::string cuda = fmt::format("CUDA: {}", cudaGetErrorString(error));
  return Error(operation, code_of(error), words.empty() ? cuda : fmt::format("{} ({})", words, cuda));
}

void check_gpu(const std::string& operation, int status) {
  if (status == cudaSuccess) { return; }
  const Error error = gpu_error(operation, status);
  cudaGetLastError();
  if (lasts(static_cast<cudaError_t>(status))) { throw GpuFault(error); }
  throw Error(error);
}

void ignore_gpu(int status) {
  if (status != cudaSuccess) { cudaGetLastError(); }
}

}  // namespace virtrain
