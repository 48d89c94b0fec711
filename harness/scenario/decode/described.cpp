#include "harness/scenario/decode/described.h"

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/units.h"

namespace virtrain::harness {

About about(const Property& is) {
  About about{.text = is.text, .absent = is.absent, .pattern = is.pattern};
  if (is.example != nullptr) {
    const auto example = parse_json_or_null(is.example);
    about.example = example.is_null() ? Schema(is.example) : Schema(example);
  }
  return about;
}

void read_text(MapReader& in, const Property& is, std::string& into) {
  About of_text = in.describes() ? about(is) : About{.text = is.text};
  of_text.fallback = into;
  if (is.only_word != nullptr) {
    in.one_of(is.key, {is.only_word}, of_text);
  } else if (const auto text = in.text(is.key, static_cast<std::size_t>(is.most), of_text)) {
    into = *text;
    if (is.fits != nullptr && !is.fits(*text)) {
      in.refuse(is.key, "{}: '{}' {}", is.key, excerpt(*text), is.refusal);
    }
  }
}

std::optional<std::uint64_t> read_rate(MapReader& in, const Property& is) {
  constexpr std::uint64_t least = 1ULL << 10,
                          most = 1ULL << 40;  // tc takes no more as a 64-bit rate in bits
  constexpr std::string_view each_second = "/s";
  About of_rate = in.describes() ? about(is) : About{.text = is.text};
  of_rate.pattern = "^[0-9]+(B|KiB|MiB|GiB|TiB)/s$";
  const auto text = in.text(is.key, 64, of_rate);
  if (!text) { return std::nullopt; }
  std::optional<std::uint64_t> bytes;
  if (text->ends_with("B/s")) {
    bytes = parse_size_bytes(text->substr(0, text->size() - each_second.size()));
  }
  if (bytes && *bytes >= least && *bytes <= most) { return bytes; }
  in.refuse(is.key,
            "{}: '{}' is not allowed (allowed: bytes a second such as 100MiB/s, from 1KiB/s to 1TiB/s)",
            is.key, excerpt(*text));
  return std::nullopt;
}

}  // namespace virtrain::harness
