#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/files/open_folder.h"
#include "common/files/unique_fd.h"

namespace virtrain {

/// A hidden file beside `path` that takes its place once it is whole, and else goes when this goes. The
/// folder is opened once (open_folder()), and nobody can foresee the name: where others may write, a planted
/// link or file is neither followed nor taken. Every failure is an Error.
class NewFile {
 public:
  /// Made with this mode less the umask.
  NewFile(const std::filesystem::path& path, mode_t mode);
  NewFile(FilePlace place, const std::filesystem::path& path, mode_t mode);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  /// The open file: in a folder of somebody else's the name may be another file's by now.
  int descriptor() const { return file_.get(); }
  /// Once all of it is on disk, with exactly `mode`, if any. A link at `path` is replaced, not followed.
  void take_place(std::optional<mode_t> mode = std::nullopt);

 private:
  const std::string operation_;
  FilePlace place_;
  std::string name_;  ///< empty: it is in its place
  UniqueFd file_;
};

/// Writes and closes, whole or not at all by rename. With exactly this mode, and nobody else's to read before
/// it has it; without one, 0644 less the umask. Throws Error.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           std::optional<mode_t> mode = std::nullopt);

}  // namespace virtrain
