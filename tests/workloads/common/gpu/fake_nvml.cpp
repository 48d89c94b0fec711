#include <cstdio>
#include <cstring>
#include <initializer_list>

// A libnvidia-ml.so.1 with the functions that workloads/common/gpu/nvml.cpp calls, written against NVIDIA's
// documentation and not against that file, and those of vGPU schedulers. A whole GPU at 01:00.0, a vGPU
// without a licence at 02:00.0, which tells little, a GPU in MIG mode at 03:00.0, and a vGPU host at 41:00.0.
// nvmlDeviceGetVbiosVersion is missing, as from an older driver.

namespace {

int users = 0;
int firmware_questions = 0;  ///< what the driver may pass on to the GPU's firmware
constexpr int success = 0, not_initialized = 1, not_supported = 3, not_found = 6, insufficient_size = 7;
int whole_gpu, vgpu, mig_gpu, vgpu_host;
unsigned scheduler[4] = {1, 1, 2000000, 0};  // best effort, no round robin, 2 ms

int answer(void* device, unsigned* out, unsigned value) {
  if (users == 0) { return not_initialized; }
  if (device == &vgpu) { return not_supported; }
  *out = value;
  return success;
}

int copy(const char* text, char* out, unsigned size) {
  if (std::strlen(text) >= size) { return insufficient_size; }
  std::memcpy(out, text, std::strlen(text) + 1);
  return success;
}

/// As sysfs has it, or what a test has mounted there.
bool carries_vgpus() {
  for (const char* file : {"/sys/bus/pci/devices/0000:41:00.5/nvidia/current_vgpu_type",
                           "/sys/bus/pci/devices/0000:41:00.6/nvidia/current_vgpu_type"}) {
    if (std::FILE* type = std::fopen(file, "r")) {
      const int first = std::fgetc(type);
      std::fclose(type);
      if (first != '0') { return true; }
    }
  }
  return false;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return ++users, success;
}
int nvmlShutdown() {
  return --users, success;
}
int fake_nvml_users() {
  return users;
}
int fake_nvml_firmware_questions() {
  return firmware_questions;
}
const char* nvmlErrorString(int status) {
  return status == not_found ? "Not Found" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return copy("580.65.06", out, size);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (std::strcmp(address, "0000:01:00.0") == 0) { return *device = &whole_gpu, success; }
  if (std::strcmp(address, "0000:02:00.0") == 0) { return *device = &vgpu, success; }
  if (std::strcmp(address, "0000:03:00.0") == 0) { return *device = &mig_gpu, success; }
  if (std::strcmp(address, "0000:41:00.0") == 0) { return *device = &vgpu_host, success; }
  return not_found;
}
int nvmlDeviceGetName(void* device, char* out, unsigned size) {
  return copy(device == &vgpu ? "NVIDIA H200X-35C" : "NVIDIA H200", out, size);
}
int nvmlDeviceGetUUID(void*, char* out, unsigned size) {
  return copy("GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8", out, size);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* out) {
  return answer(device, out, 700'000);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* out) {
  return answer(device, out, 512'345);
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* out) {
  return answer(device, out, type == 1 ? 1980 : 3201);
}
int nvmlDeviceGetApplicationsClock(void* device, int type, unsigned* out) {
  return answer(device, out, type == 0 ? 1830 : 3201);
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* out) {
  return answer(device, out, type == 1 ? 1755 : 3201);
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* out) {
  return sensor == 0 ? answer(device, out, 61) : not_supported;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* out) {
  if (device == &vgpu) { return not_supported; }
  *out = 5'000'000'000'250ULL;  // beyond 32 bits
  return success;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* out) {
  if (device == &vgpu) { return not_supported; }
  *out = 0x4 | 0x40 | 0x200;
  return success;
}
int nvmlDeviceGetEccMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return answer(device, current, 1);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* out) {
  ++firmware_questions;
  if (device == &vgpu) { return not_supported; }
  *out = type == 1 && counter == 0 ? 2 : 99;
  return success;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  ++firmware_questions;
  if (device == &vgpu) { return not_supported; }
  *corrected = 7;
  *uncorrected = 0;
  *pending = 1;
  *failed = 0;
  return success;
}
int nvmlDeviceGetGpuFabricInfo(void* device, void* out) {
  ++firmware_questions;
  if (device == &vgpu) { return not_supported; }
  struct Info {
    unsigned char clusterUuid[16];
    int status;
    unsigned cliqueId;
    unsigned char state;
  } info{{}, 0, 9, 2};
  std::memcpy(out, &info, sizeof info);
  return success;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* out) {
  return answer(device, out, 4);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* out) {
  return answer(device, out, 16);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* out) {
  return answer(device, out, 5);
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* out) {
  return answer(device, out, 16);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 1;
  return answer(device, current, device == &mig_gpu ? 1 : 0);
}
int nvmlDeviceGetVirtualizationMode(void* device, unsigned* out) {
  *out = device == &vgpu ? 2 : 1;
  return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  ++firmware_questions;
  *count = 3;
  return insufficient_size;
}
int nvmlDeviceGetUtilizationRates(void* device, void* out) {
  if (device == &vgpu) { return not_supported; }
  const unsigned percent[2] = {97, 12};  // kernels, memory
  std::memcpy(out, percent, sizeof percent);
  return success;
}
int nvmlDeviceGetVgpuSchedulerState(void* device, void* out) {
  if (device != &vgpu_host) { return not_supported; }
  std::memcpy(out, scheduler, sizeof scheduler);
  return success;
}
int nvmlDeviceSetVgpuSchedulerState(void* device, const void* wanted) {
  if (device != &vgpu_host || carries_vgpus()) { return not_supported; }
  std::memcpy(scheduler, wanted, sizeof scheduler);
  if (scheduler[2] == 0) { scheduler[2] = 1000000; }
  return success;
}
int nvmlDeviceGetGridLicensableFeatures_v4(void* device, void* out) {
  struct Expiry {
    unsigned year;
    unsigned short month, day, hour, min, sec;
    unsigned char status;
  };
  struct Feature {
    unsigned featureCode, featureState;
    char licenseInfo[128], productName[128];
    unsigned featureEnabled;
    Expiry licenseExpiry;
  };
  struct Features {
    int isGridLicenseSupported;
    unsigned licensableFeaturesCount;
    Feature gridLicensableFeatures[3];
  } features{};
  if (device == &vgpu) {
    features.isGridLicenseSupported = 1;
    features.licensableFeaturesCount = 2;
    features.gridLicensableFeatures[0].featureState = 1;  // licensed, but not the one in use
    features.gridLicensableFeatures[1].featureEnabled = 1;
  }
  std::memcpy(out, &features, sizeof features);
  return success;
}

}  // extern "C"
