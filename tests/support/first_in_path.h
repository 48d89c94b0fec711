#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace virtrain {

/// While this lives, programs in a folder stand for those of the same name elsewhere.
class FirstInPath {
 public:
  explicit FirstInPath(const std::filesystem::path& folder) {
    const char* const path = std::getenv("PATH");
    before_ = path == nullptr ? "" : path;
    ::setenv("PATH", (folder.string() + ":" + before_).c_str(), 1);
  }
  FirstInPath(const FirstInPath&) = delete;
  FirstInPath& operator=(const FirstInPath&) = delete;
  ~FirstInPath() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

}  // namespace virtrain
