#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace virtrain::canary {

/// Whether a PCI function is NVIDIA's, whose memory only CUDA reaches: its memory regions are windows of the
/// driver's, and nobody else may write there. From "/" or a recorded tree.
bool is_nvidia(const std::filesystem::path& root, const std::string& address);

/// "cuda:0000:19:00.0": the name of a GPU's memory in requests and answers.
std::string gpu_path(const std::string& address);
/// The PCI address in such a name; nothing for any other path.
std::optional<std::string> address_of_gpu(const std::string& path);

}  // namespace virtrain::canary
