#pragma once

#include <filesystem>
#include <string>

namespace virtrain::vmctl {

/// A host file that travels into the guest; its shared libraries' packages follow by themselves.
struct CarriedFile {
  std::filesystem::path source;
  std::string target;  ///< absolute path in the guest; executable
};

}  // namespace virtrain::vmctl
