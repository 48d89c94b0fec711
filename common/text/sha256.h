#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace virtrain {

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  void update(std::string_view bytes);
  /// Of all bytes so far, 64 hexadecimal digits; call once.
  std::string finish();

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string partial_;  ///< less than one block
  std::uint64_t length_bytes_ = 0;
};

/// SHA-256 (FIPS 180-4) of the bytes, 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
/// Of a file's content. Throws Error(not_found).
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace virtrain
