#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::probe {

/// "GPU 0->1 direct", or "GPU 0->1 through the host".
std::string peer_words(int from, int to, bool direct);

/// Words of two buffers that differ.
std::int64_t wrong_words(const std::vector<std::uint32_t>& sent, const std::vector<std::uint32_t>& arrived);

/// Words without a pattern: a copy that swaps, repeats or drops pages shows.
std::vector<std::uint32_t> pattern(std::size_t words, std::uint32_t seed);

}  // namespace virtrain::probe
