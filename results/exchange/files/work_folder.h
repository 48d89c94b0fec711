#pragma once

#include <filesystem>

namespace virtrain::results {

/// A hidden folder of ours alone, beside a file, that is removed with everything in it.
class WorkFolder {
 public:
  /// Made as .NAME.XXXXXX beside the file of this name. Error(io) with the reason.
  explicit WorkFolder(const std::filesystem::path& beside);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();
  std::filesystem::path path;
};

}  // namespace virtrain::results
