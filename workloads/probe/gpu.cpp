#include "workloads/probe/gpu.h"

#include <algorithm>

namespace virtrain::probe {

std::string peer_words(int from, int to, bool direct) {
  return "GPU " + std::to_string(from) + "->" + std::to_string(to) +
         (direct ? " direct" : " through the host");
}

std::int64_t wrong_words(const std::vector<std::uint32_t>& sent, const std::vector<std::uint32_t>& arrived) {
  std::int64_t wrong = static_cast<std::int64_t>(std::max(sent.size(), arrived.size())) -
                       static_cast<std::int64_t>(std::min(sent.size(), arrived.size()));
  for (std::size_t i = 0; i < std::min(sent.size(), arrived.size()); ++i) { wrong += sent[i] != arrived[i]; }
  return wrong;
}

std::vector<std::uint32_t> pattern(std::size_t words, std::uint32_t seed) {
  std::vector<std::uint32_t> values(words);
  std::uint32_t state = seed;
  for (std::size_t i = 0; i < words; ++i) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator: its period is all 2^32 words
    values[i] = state;
  }
  return values;
}

}  // namespace virtrain::probe
