#include "workloads/canary/run/find_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/model/edu_device.h"
#include "common/text/text.h"
#include "workloads/canary/cuda/gpu_engine.h"
#include "workloads/canary/cuda/gpu_path.h"
#include "workloads/canary/memory.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

constexpr const char* engine_functions = "sys/bus/pci/devices";

// PCI Local Bus Specification 3.0, 6.2.2.
constexpr off_t command_register = 4;
constexpr std::uint16_t memory_and_master = 0x2 | 0x4;

std::string value_of(const fs::path& file) {
  return std::string(trim(read_file(file).value_or("")));
}

/// Without this the function's requests end at its own port.
void make_bus_master(const fs::path& function) {
  const auto operation = "let " + function.filename().string() + " be a bus master";
  const UniqueFd fd(::open((function / "config").c_str(), O_RDWR | O_CLOEXEC));
  std::uint16_t command = 0;
  if (!fd || ::pread(fd.get(), &command, sizeof command, command_register) != sizeof command) {
    throw errno_error(operation, errno);
  }
  command |= memory_and_master;
  if (::pwrite(fd.get(), &command, sizeof command, command_register) != sizeof command) {
    throw errno_error(operation, errno);
  }
}

bool is_edu(const fs::path& function) {
  return value_of(function / "vendor") == edu_vendor && value_of(function / "device") == edu_device;
}

bool is_gpu(const fs::path& root, const fs::path& function) {
  return is_nvidia(root, function.filename()) && value_of(function / "class").starts_with("0x03");
}

/// Memory regions of this node's devices, those of NVIDIA's left out: they are windows of the driver's.
std::vector<MemoryRegion> regions_of_node(const fs::path& root) {
  std::vector<MemoryRegion> all;
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_nvidia(root, function.filename())) { continue; }
    const auto regions = memory_regions(function);
    all.insert(all.end(), regions.begin(), regions.end());
  }
  return all;
}

}  // namespace

std::unique_ptr<DmaEngine> find_engine(const fs::path& root, const LockedPage& own,
                                       const BusAddress& bus_address) {
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_edu(function)) {
      make_bus_master(function);
      return std::make_unique<EduEngine>(function / "resource0", bus_address);
    }
    if (is_gpu(root, function)) {
      return gpu_engine(function.filename(), {&own, bus_address(own), regions_of_node(root)});
    }
  }
  return nullptr;
}

}  // namespace virtrain::canary
