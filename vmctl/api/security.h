#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/system/file_search.h"

namespace virtrain::vmctl {

/// A file that more users may use than should.
struct LooseFile {
  std::filesystem::path path;
  unsigned mode = 0, allowed = 0;
};

/// Modes of what virtrain keeps on a host: journal, locks, logs of this run.
struct ModeReport {
  std::uint64_t files = 0;
  std::vector<LooseFile> loose;
  bool found_control = false;  ///< a file of mode 0644 that was planted among them
};

}  // namespace virtrain::vmctl
