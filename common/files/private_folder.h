#pragma once

#include <filesystem>
#include <string>

namespace virtrain {

/// TMPDIR, or else /tmp.
std::filesystem::path temporary_folder();

/// A new folder that only this user can enter, with a name that nobody foresees. It goes with all in it when
/// this goes.
class PrivateFolder {
 public:
  /// `above`: the folder that it is made in. What fails is Error(io) of this operation.
  explicit PrivateFolder(const std::string& operation,
                         const std::filesystem::path& above = temporary_folder());
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace virtrain
