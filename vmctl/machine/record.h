#pragma once

#include <filesystem>

namespace virtrain::vmctl {

/// Writes what plans and checks read of this host into a new folder: files of proc, sys and etc with what
/// /proc/PID shows of a few services, and under var/lib/virtrain what nvidia-smi, fmpm, libvirtd, QEMU and
/// the kernel's log say. No serial number but GPUs' UUIDs, no process but those services, no other user's
/// data. What is not there, or not this user's to read, is left out. Throws Error(bad_input) where `folder`
/// exists, Error(io) where it cannot be written.
void record_host(const std::filesystem::path& folder);

}  // namespace virtrain::vmctl
