#include "common/text/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>

#include "common/error.h"
#include "common/text/text.h"
#include "common/unique_fd.h"

namespace virtrain {
namespace {

void check(int done) {
  if (done != 1) { throw Error("hash bytes", ErrorCode::io, "libcrypto offers no SHA-256"); }
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::string_view bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

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
