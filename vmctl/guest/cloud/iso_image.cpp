#include "vmctl/guest/cloud/iso_image.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <memory>

#include "common/error.h"

namespace virtrain::vmctl {
namespace {

struct Closer {
  void operator()(archive* writer) const { archive_write_free(writer); }
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

}  // namespace

void write_iso(const std::filesystem::path& image, const std::string& label,
               const std::vector<std::pair<std::string, std::string>>& files) {
  const std::unique_ptr<archive, Closer> writer(archive_write_new());
  const auto need = [&](la_ssize_t outcome) {
    if (outcome < ARCHIVE_OK) {
      throw Error("write " + image.string(), ErrorCode::io, archive_error_string(writer.get()));
    }
  };
  need(archive_write_set_format_iso9660(writer.get()));
  need(archive_write_set_format_option(writer.get(), "iso9660", "volume-id", label.c_str()));
  need(archive_write_open_filename(writer.get(), image.c_str()));
  for (const auto& [name, content] : files) {
    const std::unique_ptr<archive_entry, Closer> entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), S_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    need(archive_write_header(writer.get(), entry.get()));
    need(archive_write_data(writer.get(), content.data(), content.size()));
  }
  need(archive_write_close(writer.get()));
}

}  // namespace virtrain::vmctl
