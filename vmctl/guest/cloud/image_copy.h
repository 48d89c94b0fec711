#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/files/unique_fd.h"

namespace virtrain::vmctl {

/// A copy of a disk image in the cache, named after its content.
struct ImageCopy {
  std::filesystem::path file;
  std::string sha256;                    ///< of its content
  std::shared_ptr<const UniqueFd> hold;  ///< while it lives, nobody prunes the copy from the cache
};

/// Copies what the calling user opens under that name: VMs then boot what was read with that user's rights,
/// whatever the name leads to later. Where the file system can, the copy shares the original's blocks. Throws
/// Error(host_unable) for what that user cannot read or the cache has no room for.
/// `what`: "guest image", in messages.
ImageCopy copy_image(const std::filesystem::path& image, const std::filesystem::path& cache_dir,
                     const Cancelled& cancelled, const std::string& what = "guest image");

}  // namespace virtrain::vmctl
