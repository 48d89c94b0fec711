#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "common/error.h"

namespace virtrain {

/// A folder for one test, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "virtrain-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) { throw errno_error("make " + name, errno); }
    path = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  std::filesystem::path path;
};

}  // namespace virtrain
