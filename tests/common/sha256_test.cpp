#include "common/text/sha256.h"

#include "common/system/subprocess.h"
#include "tests/support/catch.h"

namespace virtrain {
namespace {

TEST_CASE("SHA-256 gives FIPS 180's answers") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 agrees with sha256sum around its block size") {
  for (const std::size_t size : {1U, 54U, 55U, 56U, 57U, 63U, 64U, 65U, 119U, 120U, 127U, 128U}) {
    CommandOptions options;
    options.input = std::string(size, 'x');
    CHECK(run_checked({"sha256sum"}, options).out.substr(0, 64) == sha256(options.input));
  }
}

TEST_CASE("SHA-256 in base64 is what openssl dgst -binary | base64 prints") {
  CHECK(sha256_base64("abc") == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

TEST_CASE("SHA-256 in pieces is that of the whole, whatever the pieces") {
  std::string text;
  for (int i = 0; i < 1000; ++i) { text += static_cast<char>(i * 7); }
  for (const std::size_t piece : {1U, 3U, 63U, 64U, 65U, 128U, 999U}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) { hash.update(text.substr(at, piece)); }
    CHECK(hash.finish() == sha256(text));
  }
}

}  // namespace
}  // namespace virtrain
