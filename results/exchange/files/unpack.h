#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "results/exchange/files/work_folder.h"

namespace virtrain::results {

/// How much a packed file may unfold to.
struct UnpackLimits {
  std::uint64_t bytes = most_kept_bytes;                 ///< of all that is in it
  std::uint64_t always_bytes = std::uint64_t{64} << 20;  ///< up to here whatever the ratio
  std::uint64_t ratio = 200;                             ///< beyond it, at most so many times the file
  std::uint64_t members = 100'000;
};

/// The text that a packed file holds.
struct UnpackedText {
  TemporaryText text;
  std::string name;  ///< what messages call it: "ev.tar.gz/exchange.jsonl", "1.log.gz"
};

/// Whether the file begins as gzip or zstd does.
bool is_packed(const std::filesystem::path& file);

/// The text inside of a .gz or .zst file, or the records of an evidence bundle (.tar.gz, .tar.zst) after all
/// checksums were verified. Nothing is written but the text, to a file without a name. Nothing comes back for
/// an archive that is no evidence bundle; what is damaged, false or beyond the limits is Error(bad_input).
std::optional<UnpackedText> unpack(const std::filesystem::path& file, const std::string& name,
                                   const UnpackLimits& limits = {});

}  // namespace virtrain::results
