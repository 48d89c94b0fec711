#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace virtrain::vmctl {

/// Writes an ISO 9660 image (with Joliet and Rock Ridge, so that names stay as they are) of these files.
/// Throws Error(io).
void write_iso(const std::filesystem::path& image, const std::string& label,
               const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace virtrain::vmctl
