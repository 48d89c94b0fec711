#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct archive;

namespace virtrain::results {

/// A tar archive that holds no more than names and bytes: every entry has the same owner, mode and time, so
/// that equal content gives an equal archive.
class ArchiveWriter {
 public:
  enum class Compression { gzip, zstd };

  /// Writes to what is open, which failures call `file`; each is an Error(io) with libarchive's words.
  ArchiveWriter(int descriptor, const std::filesystem::path& file, Compression compression);
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void add(const std::string& name, std::string_view content);
  /// The first `size_bytes` of the file, which may have grown since it was measured.
  void add_file(const std::string& name, const std::filesystem::path& source, std::uint64_t size_bytes);
  void close();

 private:
  void begin_entry(const std::string& name, std::uint64_t size_bytes);
  void write(std::string_view bytes);
  void check(int result) const;

  std::filesystem::path file_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

}  // namespace virtrain::results
