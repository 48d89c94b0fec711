#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>

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

/// Most that is kept of what one file holds, packed or through a pipe.
inline constexpr std::uint64_t most_kept_bytes = std::uint64_t{4} << 30;

/// A file without a name, in TMPDIR or /tmp, that goes when this goes: for text that can be read only once,
/// or that is packed.
class TemporaryText {
 public:
  TemporaryText();
  /// Where it can be opened for reading, while this lives.
  std::filesystem::path path() const;
  /// Throws Error(io) with `what` if the bytes cannot be kept.
  void write(std::string_view bytes, const std::string& what);
  /// All that comes until the end; Error(bad_input) where that is more than `most_bytes`.
  void copy(std::istream& in, const std::string& what, std::uint64_t most_bytes = most_kept_bytes);
  /// The same from a pipe.
  void copy(int pipe, const std::string& what, std::uint64_t most_bytes = most_kept_bytes);
  /// After the last byte, before the file is read.
  void finish(const std::string& what);

 private:
  void take(std::string_view bytes, const std::string& what, std::uint64_t& left, std::uint64_t most_bytes);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  /// With the reason in errno.
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path folder_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace virtrain::results
