#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/store.h"

struct archive;

namespace virtrain::results {

/// Contents of an evidence bundle that was written.
struct BundleReport {
  std::int64_t files = 0;
  std::vector<std::string> missing;  ///< logs that the database names and that are not there any more
};

/// Writes everything that backs the experiments' figures into one archive (docs/formats.md: "Evidence
/// bundle"): their rows as a database of their own and as exchange records, the scenario, the plan, each VM's
/// domain XML, the logs, hashes of all of it, and how to check them. Equal data gives an equal archive.
/// `file` ends in
/// ".tar.gz" or ".tar.zst", anything else is Error(usage); it appears whole or not at all. Logs are taken
/// only from LOGS/EXPERIMENT/, whatever path an imported record may name.
BundleReport write_bundle(const Store& store, const std::vector<std::string>& experiments,
                          const std::filesystem::path& file, const std::filesystem::path& logs);

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
