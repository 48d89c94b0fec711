#include "vmctl/devices/pci/link_errors.h"

#include "common/files/reading.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

/// The last line is the sum: "TOTAL_ERR_COR 0", "TOTAL_ERR_NONFATAL 0", "TOTAL_ERR_FATAL 0".
std::optional<std::uint64_t> total_in(const std::filesystem::path& file) {
  for (const auto& line : split(read_file(file).value_or(""), '\n')) {
    const auto words = words_of(line);
    if (words.size() != 2 || !words[0].starts_with("TOTAL_ERR")) { continue; }
    if (const auto number = parse_integer(words[1]); number && *number >= 0) {
      return static_cast<std::uint64_t>(*number);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LinkErrors> read_link_errors(const PciFunction& function) {
  const auto correctable = total_in(function.folder / "aer_dev_correctable");
  const auto nonfatal = total_in(function.folder / "aer_dev_nonfatal");
  const auto fatal = total_in(function.folder / "aer_dev_fatal");
  if (!correctable && !nonfatal && !fatal) { return std::nullopt; }
  return LinkErrors{correctable.value_or(0), nonfatal.value_or(0), fatal.value_or(0)};
}

}  // namespace virtrain::vmctl
