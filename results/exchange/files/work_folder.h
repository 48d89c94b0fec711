#pragma once

#include <filesystem>

#include "common/files/open_folder.h"

namespace virtrain::results {

/// A hidden folder of ours alone, beside a file, that is removed with everything in it.
class WorkFolder {
 public:
  /// Made as .NAME.X beside the file of this name. Error with the reason.
  explicit WorkFolder(const std::filesystem::path& beside);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();

  /// Leads to it whatever others make of its name, and in this process only.
  std::filesystem::path path() const;
  /// By its name, for other processes.
  const std::filesystem::path& named_path() const { return named_; }

 private:
  FilePlace place_;
  std::filesystem::path named_;
  UniqueFd folder_;
};

}  // namespace virtrain::results
