#include "workloads/canary/cuda/gpu_path.h"

#include <string_view>

#include "common/files/reading.h"

namespace virtrain::canary {
namespace {

constexpr std::string_view prefix = "cuda:";

}  // namespace

bool is_nvidia(const std::filesystem::path& root, const std::string& address) {
  return read_file(root / "sys/bus/pci/devices" / address / "vendor").value_or("").starts_with("0x10de");
}

std::string gpu_path(const std::string& address) {
  return std::string(prefix) + address;
}

std::optional<std::string> address_of_gpu(const std::string& path) {
  if (!path.starts_with(prefix)) { return std::nullopt; }
  return path.substr(prefix.size());
}

}  // namespace virtrain::canary
