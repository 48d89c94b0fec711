#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace virtrain::vmctl {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// One executable file as a cpio archive (newc) that the kernel unpacks over what came before it.
std::string newc_archive(const std::string& name, const std::string& content);

/// Writes an ISO 9660 image (with Joliet and Rock Ridge, so that names stay as they are) of these files.
/// Throws Error(io).
void write_iso(const std::filesystem::path& image, const std::string& label, const NamedTexts& files);

}  // namespace virtrain::vmctl
