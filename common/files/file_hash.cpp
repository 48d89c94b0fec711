#include "common/files/file_hash.h"

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/sha256.h"

namespace virtrain {

std::string sha256_of_file(const std::filesystem::path& file) {
  const auto open = open_to_read(file);
  Sha256 hash;
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  for (bool more = true; more;) {
    const auto piece = open ? read_at_most(open.get(), piece_bytes) : std::nullopt;
    if (!piece) { throw Error("hash " + file.string(), ErrorCode::not_found, "the file cannot be read"); }
    hash.update(*piece);
    more = !piece->empty();
  }
  return hash.finish();
}

}  // namespace virtrain
