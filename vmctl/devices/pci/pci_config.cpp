#include "vmctl/devices/pci/pci_config.h"

#include "common/files/reading.h"

namespace virtrain::vmctl {
namespace {

constexpr std::size_t standard_bytes = 256;  // extended capabilities follow
constexpr unsigned acs_id = 0x000d;
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

}  // namespace

std::string read_pci_config(const PciFunction& function) {
  return read_file(function.folder / "config").value_or("");
}

std::optional<AcsControl> acs_control(const std::string& config) {
  const auto capability = extended_capability(config, acs_id);
  if (!capability) { return std::nullopt; }
  const unsigned control = word_at(config, *capability + 6);
  const auto bit = [&](unsigned which) { return (control >> which & 1U) != 0; };
  return AcsControl{bit(2), bit(3), bit(4)};
}

std::optional<bool> ats_enabled(const std::string& config) {
  const auto capability = extended_capability(config, ats_id);
  if (!capability) { return std::nullopt; }
  return (word_at(config, *capability + 6) >> 15 & 1U) != 0;
}

}  // namespace virtrain::vmctl
