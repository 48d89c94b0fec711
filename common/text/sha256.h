#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace virtrain {

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  /// Digest of all bytes so far, 64 hexadecimal digits; call once.
  std::string finish();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// SHA-256 of the bytes, 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
/// The same in base64, as a Content-Security-Policy names a script.
std::string sha256_base64(std::string_view bytes);

}  // namespace virtrain
