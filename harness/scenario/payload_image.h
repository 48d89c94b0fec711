#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

// The environment of a job: one squashfs image with a root file system in it (docs/jobs.md).

namespace virtrain::harness {

/// The machine that programs of this build are for, as an ELF file's header numbers it.
inline constexpr unsigned elf_machine =
#if defined(__aarch64__)
    183;
#else
    62;
#endif
/// A name of such a number: "x86-64".
std::string machine_name(unsigned machine);

/// Whether the bytes begin an Apptainer image (github.com/sylabs/sif).
bool is_sif(std::string_view bytes);

/// Why a job whose command begins with `program` cannot run in the image: it is none, it lacks the program,
/// the program is for another machine; empty: it can. Looks with unsquashfs.
std::string payload_refusal(const std::filesystem::path& image, const std::string& program);

/// Why unsquashfs cannot read a squashfs image: "is damaged, …"; empty: it can.
std::string squashfs_damage(const std::filesystem::path& image);

/// The bytes of all files in the image, as they are once it is unpacked. Looks with unsquashfs.
std::uint64_t unpacked_payload_bytes(const std::filesystem::path& image);

}  // namespace virtrain::harness
