#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/described.h"

namespace virtrain {

/// A text that occurs nowhere else, planted where a tenant must not find it. `name` says whose it is and
/// where it was put: "tenant-a/shared_memory".
struct Canary {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Whose it is and where it was put");
  VIRTRAIN_FIELD(std::string, text, {}, .text = "What occurs nowhere else");
};

/// So long is the text of each: 24 random digits leave no room for a hit by chance.
inline constexpr std::size_t canary_size = 32;

/// How each begins.
inline constexpr std::string_view canary_prefix = "vt-canary-";

/// A new one: the prefix and random lower-case letters and digits.
Canary make_canary(std::string name);
/// Whether the text can be one: of the right length, without odd characters.
bool is_canary_text(std::string_view text);

/// Looks for canaries in one stream of bytes that comes in pieces.
class CanarySearch {
 public:
  struct Hits {
    std::uint64_t count = 0;
    std::uint64_t first = 0, last = 0;  ///< offsets in the stream
  };

  explicit CanarySearch(std::vector<Canary> canaries);

  /// The next bytes of the stream.
  void feed(std::string_view bytes);
  /// So many bytes of the stream hold nothing.
  void skip(std::uint64_t bytes);
  /// A new stream begins; hits of the last one are forgotten.
  void restart();
  const std::vector<Canary>& canaries() const { return canaries_; }
  /// Hits of each canary, in their order.
  const std::vector<Hits>& hits() const { return hits_; }

 private:
  void look_at(std::string_view bytes, std::uint64_t offset);

  std::vector<Canary> canaries_;
  std::vector<Hits> hits_;
  std::string tail_;  ///< the last bytes fed, in which a canary may begin
  std::uint64_t fed_ = 0;
};

}  // namespace virtrain
