#include "results/exchange/bundle/archive_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"

namespace virtrain::results {

ArchiveWriter::ArchiveWriter(int descriptor, const std::filesystem::path& file, Compression compression)
    : file_(file), archive_(archive_write_new(), archive_write_free) {
  // ustar, with an extended header only where a name is too long for it.
  check(archive_write_set_format_pax_restricted(archive_.get()));
  if (compression == Compression::gzip) {
    check(archive_write_add_filter_gzip(archive_.get()));
    check(archive_write_set_filter_option(archive_.get(), "gzip", "timestamp", nullptr));
  } else {
    check(archive_write_add_filter_zstd(archive_.get()));
  }
  check(archive_write_open_fd(archive_.get(), descriptor));
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::begin_entry(const std::string& name, std::uint64_t size_bytes) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size_bytes));
  check(archive_write_header(archive_.get(), entry.get()));
}

void ArchiveWriter::write(std::string_view bytes) {
  if (archive_write_data(archive_.get(), bytes.data(), bytes.size()) < 0) { check(ARCHIVE_FATAL); }
}

void ArchiveWriter::add(const std::string& name, std::string_view content) {
  begin_entry(name, content.size());
  write(content);
}

void ArchiveWriter::add_file(const std::string& name, const std::filesystem::path& source,
                             std::uint64_t size_bytes) {
  begin_entry(name, size_bytes);
  auto in = open_stream(source);
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::uint64_t left = size_bytes; left > 0;) {
    in.read(piece.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(left, piece.size())));
    if (in.gcount() <= 0) {
      throw Error("write " + file_.string(), ErrorCode::io,
                  source.string() + " became shorter while it was read");
    }
    write({piece.data(), static_cast<std::size_t>(in.gcount())});
    left -= static_cast<std::uint64_t>(in.gcount());
  }
}

void ArchiveWriter::close() {
  check(archive_write_close(archive_.get()));
}

void ArchiveWriter::check(int result) const {
  if (result == ARCHIVE_OK) { return; }
  const char* words = archive_error_string(archive_.get());
  throw Error("write " + file_.string(), ErrorCode::io, words != nullptr ? words : "libarchive failed");
}

}  // namespace virtrain::results
