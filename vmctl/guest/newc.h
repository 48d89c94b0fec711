#pragma once

#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// One executable file as a cpio archive (newc) that the kernel unpacks over what came before it.
std::string newc_archive(std::string_view name, std::string_view content);

}  // namespace virtrain::vmctl
