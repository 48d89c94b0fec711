#include "vmctl/guest/archives.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <memory>

#include "common/error.h"
#include "common/files/new_file.h"

namespace virtrain::vmctl {
namespace {

/// Writes an archive by libarchive; throws Error(io).
class Writer {
 public:
  explicit Writer(std::string operation)
      : operation_(std::move(operation)), archive_(archive_write_new(), archive_write_free) {}
  archive* get() const { return archive_.get(); }
  void need(la_ssize_t outcome) const {
    if (outcome < ARCHIVE_OK) { throw Error(operation_, ErrorCode::io, archive_error_string(get())); }
  }
  void add(const std::string& name, const std::string& content, mode_t mode) const {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), S_IFREG);
    archive_entry_set_perm(entry.get(), mode);
    archive_entry_set_nlink(entry.get(), 1);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    need(archive_write_header(get(), entry.get()));
    need(archive_write_data(get(), content.data(), content.size()));
  }

 private:
  std::string operation_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

la_ssize_t append(archive* /*unused*/, void* text, const void* bytes, std::size_t size) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

}  // namespace

std::string newc_archive(const std::string& name, const std::string& content) {
  std::string text;
  const Writer writer("make a cpio archive of " + name);
  writer.need(archive_write_set_format_cpio_newc(writer.get()));
  writer.need(archive_write_set_bytes_in_last_block(writer.get(), 4));
  writer.need(archive_write_open(writer.get(), &text, nullptr, append, nullptr));
  writer.add(name, content, 0755);
  writer.need(archive_write_close(writer.get()));
  return text;
}

void write_iso(const std::filesystem::path& image, const std::string& label, const NamedTexts& files) {
  const Writer writer("write " + image.string());
  writer.need(archive_write_set_format_iso9660(writer.get()));
  writer.need(archive_write_set_format_option(writer.get(), "iso9660", "volume-id", label.c_str()));
  replace_file(image, [&](int file) {
    writer.need(archive_write_open_fd(writer.get(), file));
    for (const auto& [name, content] : files) { writer.add(name, content, 0644); }
    writer.need(archive_write_close(writer.get()));
  });
}

}  // namespace virtrain::vmctl
