#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <iosfwd>
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

// The one way to write what a user has named. Its folder is opened once, by the rule of open_folder(), and
// the file is made in it under a name that nobody can foresee.

/// Whether write_whole() writes to what is there. Throws where it refuses it.
bool is_written_in_place(const std::filesystem::path& file);

/// Calls `write` with the stream of a temporary file beside `file`, which takes the place of `file` once all
/// of it is on disk, with the permissions of the file that was there; a failure leaves `file` as it was. A
/// link of that name is replaced, not followed. A descriptor that was given (/dev/stdout, /dev/fd/3), and a
/// pipe or character device, ours or root's, is written to; what is neither those nor a file is refused.
void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// The same with the temporary file's descriptor, and for files alone.
void replace_file(const std::filesystem::path& file, const std::function<void(int)>& write);

}  // namespace virtrain
