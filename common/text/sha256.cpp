#include "common/text/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>

#include "common/error.h"

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

std::string sha256_base64(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  check(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr));
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> text;
  const auto length = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(size));
  return {text.begin(), text.begin() + length};
}

}  // namespace virtrain
