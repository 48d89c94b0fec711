#include "vmctl/guest/cloud/qcow2_header.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace virtrain::vmctl {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view qcow_magic = "QFI\xfb";
constexpr std::array<std::pair<std::string_view, const char*>, 11> other_formats{{
    {"KDMV"sv, "vmdk"},
    {"COWD"sv, "vmdk"},
    {"# Disk DescriptorFile"sv, "vmdk"},
    {"<<< "sv, "vdi"},
    {"vhdxfile"sv, "vhdx"},
    {"conectix"sv, "vpc"},
    {"QED\0"sv, "qed"},
    {"LUKS\xba\xbe"sv, "luks"},
    {"WithoutFreeSpace"sv, "parallels"},
    {"WithouFreSpacExt"sv, "parallels"},
    {"OOOO CoW"sv, "cow"},
}};

std::uint64_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) { value = value << 8U | static_cast<unsigned char>(bytes[at + i]); }
  return value;
}

/// Why a guest may not have a qcow2 image of this header.
std::string refusal_of(std::string_view bytes, std::uint64_t version) {
  constexpr std::size_t version3_bytes = 104;
  constexpr std::uint64_t corrupt = 2, external_data = 4, unknown = ~std::uint64_t{0b11111};
  constexpr const char* convert = "make it whole: qemu-img convert -O qcow2";
  if (big_endian(bytes, 8, 8) != 0) { return fmt::format("it is based on another file ({})", convert); }
  if (big_endian(bytes, 32, 4) != 0) { return "it is encrypted (decrypt it: qemu-img convert -O qcow2)"; }
  if (version == 2) { return {}; }
  if (bytes.size() < version3_bytes) { return "its header is cut short"; }
  const auto features = big_endian(bytes, 72, 8);
  if ((features & external_data) != 0) { return fmt::format("its data is in another file ({})", convert); }
  if ((features & corrupt) != 0) { return "it is marked as corrupt (qemu-img check -r all)"; }
  if ((features & unknown) != 0) {
    return fmt::format("it has unknown features ({:#x})", features & unknown);
  }
  return {};
}

}  // namespace

DiskHeader read_disk_header(std::string_view bytes, std::uint64_t file_bytes) {
  constexpr std::size_t version2_bytes = 72;
  constexpr std::uint64_t most_bytes = std::uint64_t{16} << 40U;
  for (const auto& [magic, name] : other_formats) {
    if (bytes.starts_with(magic)) { return {name, file_bytes, ""}; }
  }
  if (!bytes.starts_with(qcow_magic)) { return {"raw", file_bytes, ""}; }
  DiskHeader header{"qcow2", 0, ""};
  if (bytes.size() < version2_bytes) {
    header.refusal = "its header is cut short";
    return header;
  }
  const auto version = big_endian(bytes, 4, 4);
  if (version != 2 && version != 3) { return {fmt::format("qcow version {}", version), file_bytes, ""}; }
  header.virtual_bytes = big_endian(bytes, 24, 8);
  header.refusal = refusal_of(bytes, version);
  if (header.refusal.empty() && (header.virtual_bytes == 0 || header.virtual_bytes > most_bytes)) {
    header.refusal = fmt::format("its disk has {} bytes (at most 16 TiB)", header.virtual_bytes);
  }
  return header;
}

}  // namespace virtrain::vmctl
