#include "workloads/resnet50/dump.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/error.h"

namespace virtrain::resnet50 {

void StepDump::add_state(const std::string& prefix, const State& state, std::int64_t batches_tracked) {
  for (std::size_t i = 0; const Parameter& parameter : parameters(model_)) {
    writer_.add(prefix + parameter.name, parameter.shape, state.parameter(i++));
  }
  const std::vector<BatchNorm> all = norms(model_);
  const std::vector<RunningStatistics> running = state.running();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = prefix + all[i].name;
    writer_.add(name + ".running_mean", {all[i].channels}, running[i].mean);
    writer_.add(name + ".running_var", {all[i].channels}, running[i].variance);
    writer_.add(name + ".num_batches_tracked", {}, std::vector<std::int64_t>{batches_tracked});
  }
}

void StepDump::before_step(const State& state, const Batch& batch) {
  add_state("", state, 0);
  const auto images = static_cast<std::int64_t>(batch.labels.size());
  writer_.add("input", {images, 3, model_.image_size, model_.image_size}, batch.images);
  writer_.add("labels", {images}, batch.labels);
}

void StepDump::after_step(const State& state, const ReadParameter& gradient, double loss) {
  writer_.add("loss", {}, std::vector<float>{static_cast<float>(loss)});
  for (std::size_t i = 0; const Parameter& parameter : parameters(model_)) {
    writer_.add("grad." + parameter.name, parameter.shape, gradient(i++));
  }
  add_state("after.", state, 1);
}

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
