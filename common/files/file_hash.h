#pragma once

#include <filesystem>
#include <string>

namespace virtrain {

/// SHA-256 of a file's content, 64 hexadecimal digits. Throws Error(not_found).
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace virtrain
