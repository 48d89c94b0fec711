#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.h"

namespace virtrain::harness {

struct MadePayload {
  std::string kind;  ///< what the source was taken for: "virtual environment", …
  std::string sha256;
  std::uint64_t bytes = 0;
};

/// Makes a job's environment, one squashfs image: of a root file system, of a folder or a virtual environment
/// of Python's with the interpreter and the libraries that they use, of the file system in an Apptainer
/// image, or of a squashfs as it is. Throws Error(bad_input) for other sources, Error(usage) where the output
/// exists, Error(interrupted) once `cancelled` says so; then nothing is left of it.
MadePayload make_payload(const std::filesystem::path& source, const std::filesystem::path& output,
                         const Cancelled& cancelled = {});

}  // namespace virtrain::harness
