#pragma once

#include <string>

namespace virtrain::vmctl {

/// "QEMU 7.2.22", "9.0.0", "6.1.0-35-amd64": whether the first two numbers are at least these; true where
/// there are none.
bool is_since(const std::string& version, int major, int minor);

}  // namespace virtrain::vmctl
