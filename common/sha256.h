#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace virtrain {

/// SHA-256 (FIPS 180-4) of the bytes, 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
/// Of a file's content. Throws Error(not_found).
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace virtrain
