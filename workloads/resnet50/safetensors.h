#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace virtrain::resnet50 {

/// Tensors by name, written in the safetensors format: a little-endian u64 header length, a JSON header, raw
/// data.
class SafetensorsWriter {
 public:
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values);
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           const std::vector<std::int64_t>& values);
  /// Throws Error(io) with the path and the operating system's words.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string type;
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
  };
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace virtrain::resnet50
