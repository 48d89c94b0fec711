#include "workloads/resnet50/safetensors.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/error.h"

namespace virtrain::resnet50 {
namespace {

template <typename T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

void SafetensorsWriter::add(const std::string& name, const std::vector<std::int64_t>& shape,
                            const std::vector<float>& values) {
  tensors_.push_back({name, {"F32", shape, bytes_of(values)}});
}

void SafetensorsWriter::add(const std::string& name, const std::vector<std::int64_t>& shape,
                            const std::vector<std::int64_t>& values) {
  tensors_.push_back({name, {"I64", shape, bytes_of(values)}});
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  nlohmann::json header = nlohmann::json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors_) {
    header[name] = {{"dtype", tensor.type},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // keeps the data aligned for readers that map the file
  const std::uint64_t length = text.size();

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, tensor] : tensors_) {
    file.write(tensor.bytes.data(), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  file.close();
  if (!file) { throw errno_error("write " + path.string(), errno); }
}

}  // namespace virtrain::resnet50
