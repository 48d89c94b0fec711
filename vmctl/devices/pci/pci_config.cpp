#include "vmctl/devices/pci/pci_config.h"

#include <array>

#include "common/files/reading.h"

namespace virtrain::vmctl {
namespace {

constexpr std::size_t standard_bytes = 256;  // extended capabilities follow
constexpr unsigned acs_id = 0x000d;
constexpr unsigned express_id = 0x10;  // PCI Express, of the capabilities before them
constexpr unsigned ats_id = 0x000f;

/// Little-endian; 0 past the end.
unsigned word_at(const std::string& config, std::size_t offset) {
  if (offset + 2 > config.size()) { return 0; }
  return static_cast<unsigned char>(config[offset]) |
         static_cast<unsigned>(static_cast<unsigned char>(config[offset + 1])) << 8;
}

/// Each has its id, and from bit 20 on where the next one is.
std::optional<std::size_t> extended_capability(const std::string& config, unsigned id) {
  std::size_t offset = standard_bytes;
  for (int hops = 0; hops < 64 && offset >= standard_bytes && offset + 8 <= config.size(); ++hops) {
    if (word_at(config, offset) == id) { return offset; }
    offset = word_at(config, offset + 2) >> 4;
  }
  return std::nullopt;
}

/// A chain that begins at 0x34: a byte of id, a byte of where the next one is.
std::optional<std::size_t> express_capability(const std::string& config) {
  constexpr std::size_t header_bytes = 64;
  constexpr unsigned has_capabilities = 0x10;
  if ((word_at(config, 6) & has_capabilities) == 0) { return std::nullopt; }
  std::size_t offset = word_at(config, 0x34) & 0xfc;
  for (int hops = 0; hops < 48 && offset >= header_bytes && offset + 2 <= config.size(); ++hops) {
    const unsigned word = word_at(config, offset);
    if ((word & 0xff) == express_id) { return offset; }
    offset = word >> 8 & 0xfc;
  }
  return std::nullopt;
}

/// A register of the PCI Express capability; nothing where the configuration space ends before it.
std::optional<unsigned> express_word(const std::string& config, std::size_t offset) {
  const auto capability = express_capability(config);
  if (!capability || *capability + offset + 2 > config.size()) { return std::nullopt; }
  return word_at(config, *capability + offset);
}

}  // namespace

std::string read_pci_config(const PciFunction& function) {
  return read_file(function.folder / "config").value_or("");
}

std::optional<AcsControl> acs_control(const std::string& config) {
  const auto capability = extended_capability(config, acs_id);
  if (!capability) { return std::nullopt; }
  const unsigned control = word_at(config, *capability + 6);
  const auto bit = [&](unsigned which) { return (control >> which & 1U) != 0; };
  const bool can = (word_at(config, *capability + 4) >> 6 & 1U) != 0;
  return AcsControl{bit(2), bit(3), bit(4), bit(6), can};
}

std::optional<bool> ats_enabled(const std::string& config) {
  const auto capability = extended_capability(config, ats_id);
  if (!capability) { return std::nullopt; }
  return (word_at(config, *capability + 6) >> 15 & 1U) != 0;
}

std::optional<bool> relaxed_ordering(const std::string& config) {
  const auto control = express_word(config, 0x08);
  return control ? std::optional((*control >> 4 & 1U) != 0) : std::nullopt;
}

std::optional<double> target_link_speed(const std::string& config) {
  constexpr std::array speeds{0.0, 2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
  const unsigned generation = express_word(config, 0x30).value_or(0) & 0xf;
  return generation == 0 || generation >= speeds.size() ? std::nullopt : std::optional(speeds[generation]);
}

}  // namespace virtrain::vmctl
