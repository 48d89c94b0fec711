#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// How many bytes of a disk image tell what it is.
inline constexpr std::size_t disk_header_bytes = 512;

/// Facts from the first bytes of a disk image.
struct DiskHeader {
  std::string format;               ///< "qcow2", "raw" (of no known format), or the name of another one
  std::uint64_t virtual_bytes = 0;  ///< of a qcow2 image; of others the file's size
  std::string refusal;              ///< why no guest may have it, with what to do; empty: none
};

/// Pure, so that no program with rights ever opens an image that is not trusted: a qcow2 file names other
/// files (backing file, external data file) that whoever opens it would read. docs/interop/qcow2.rst of QEMU.
DiskHeader read_disk_header(std::string_view bytes, std::uint64_t file_bytes);

}  // namespace virtrain::vmctl
