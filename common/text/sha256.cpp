#include "common/text/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "common/error.h"
#include "common/text/text.h"

namespace virtrain {
namespace {

constexpr std::array<std::uint32_t, 64> round = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;
constexpr std::size_t block_bytes = 64;

void compress(State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + round[i] + w[i];
    const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) { state[i] += added[i]; }
}

}  // namespace

void Sha256::update(std::string_view bytes) {
  length_bytes_ += bytes.size();
  if (!partial_.empty()) {
    const auto missing = std::min(block_bytes - partial_.size(), bytes.size());
    partial_ += bytes.substr(0, missing);
    bytes.remove_prefix(missing);
    if (partial_.size() < block_bytes) { return; }
    compress(state_, reinterpret_cast<const unsigned char*>(partial_.data()));
    partial_.clear();
  }
  for (; bytes.size() >= block_bytes; bytes.remove_prefix(block_bytes)) {
    compress(state_, reinterpret_cast<const unsigned char*>(bytes.data()));
  }
  partial_ = bytes;
}

std::string Sha256::finish() {
  constexpr std::size_t length = 8;
  const std::uint64_t bits = length_bytes_ * 8;
  std::string tail = partial_;
  tail += static_cast<char>(0x80);
  while (tail.size() % block_bytes != block_bytes - length) { tail += '\0'; }
  for (int shift = 56; shift >= 0; shift -= 8) { tail += static_cast<char>(bits >> shift & 0xff); }
  for (std::size_t at = 0; at < tail.size(); at += block_bytes) {
    compress(state_, reinterpret_cast<const unsigned char*>(tail.data()) + at);
  }

  std::string digest;
  for (const auto word : state_) { digest += fmt::format("{:08x}", word); }
  return digest;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string sha256_of_file(const std::filesystem::path& file) {
  const auto content = read_file(file);
  if (!content) { throw Error("hash " + file.string(), ErrorCode::not_found, "the file cannot be read"); }
  return sha256(*content);
}

}  // namespace virtrain
