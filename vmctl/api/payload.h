#pragma once

#include <cstddef>
#include <string_view>

// A job's payload: what those who make, look into, mount and enter one agree on. Nothing else is included,
// for static programs do.
namespace virtrain::vmctl {

/// Environment of guests and slices, and of jobs in a payload behind its own folders.
inline constexpr const char* node_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Enters one: "virtrain-payload FOLDER COMMAND...". Static.
inline constexpr const char* payload_program = "virtrain-payload";
/// In a payload: folders of its programs, as PATH has them.
inline constexpr const char* payload_path_file = "/.virtrain-path";

/// Serial number of the disk that a VM has it on, by which a guest tells it from others.
inline constexpr const char* payload_serial = "virtrain-payload";

/// Whether a file of this name is a library of NVIDIA's driver. It must be of the kernel module's version, so
/// that each machine has its own and none travels.
inline bool is_of_gpu_driver(std::string_view name) {
  for (const std::string_view start : {"libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-"}) {
    if (name.starts_with(start)) { return true; }
  }
  return false;
}

/// How many bytes of a file is_squashfs() looks at.
inline constexpr std::size_t squashfs_header_bytes = 96;
/// Whether the bytes begin a squashfs image of version 4.
inline bool is_squashfs(std::string_view bytes) {
  constexpr std::size_t version_at = 28;
  return bytes.size() >= squashfs_header_bytes && bytes.starts_with("hsqs") && bytes[version_at] == 4;
}

}  // namespace virtrain::vmctl
