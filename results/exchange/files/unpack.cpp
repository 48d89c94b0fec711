#include "results/exchange/files/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "results/exchange/files/checksums.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view bundle_folder = "virtrain-evidence/";

/// A packed file that is read from its first to its last byte, within limits.
class PackedFile {
 public:
  /// `may_be_archive`: with members, where it is a tar archive; else a single text whatever it is.
  PackedFile(const fs::path& file, std::string name, const UnpackLimits& limits, bool may_be_archive)
      : name_(std::move(name)),
        limits_(limits),
        file_(open_to_read(file)),
        archive_(archive_read_new(), archive_read_free) {
    struct stat status {};
    if (!file_ || ::fstat(file_.get(), &status) != 0) { refuse("it cannot be read"); }
    packed_bytes_ = static_cast<std::uint64_t>(status.st_size);
    check(archive_read_support_filter_gzip(archive_.get()));
    check(archive_read_support_filter_zstd(archive_.get()));
    if (may_be_archive) { check(archive_read_support_format_tar(archive_.get())); }
    check(archive_read_support_format_raw(archive_.get()));
    constexpr std::size_t block_bytes = std::size_t{64} << 10;
    check(archive_read_open_fd(archive_.get(), file_.get(), block_bytes));
  }

  /// Goes to the next member; nothing at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) { return nullptr; }
    check(result);
    if (++members_ > limits_.members) { refuse("the archive has more than {} members", limits_.members); }
    return entry;
  }

  /// Gives all bytes of the member, piece by piece.
  void read(const std::function<void(std::string_view)>& take) {
    std::vector<char> piece(std::size_t{64} << 10);
    for (;;) {
      const auto count = archive_read_data(archive_.get(), piece.data(), piece.size());
      if (count == 0) { return; }
      if (count < 0) { check(ARCHIVE_FATAL); }
      bytes_ += static_cast<std::uint64_t>(count);
      require_size();
      take({piece.data(), static_cast<std::size_t>(count)});
    }
  }

  bool is_single_text() const { return archive_format(archive_.get()) == ARCHIVE_FORMAT_RAW; }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> words, Args&&... args) const {
    throw Error(name_, ErrorCode::bad_input, excerpt(fmt::format(words, std::forward<Args>(args)...), 1000));
  }

 private:
  void require_size() const {
    if (bytes_ > limits_.bytes) {
      refuse("it unpacks to more than {} bytes, the most that import reads", limits_.bytes);
    }
    if (bytes_ > limits_.always_bytes && bytes_ / limits_.ratio > packed_bytes_) {
      refuse("it unpacks to more than {} times its {} bytes; unpack it yourself if you trust it",
             limits_.ratio, packed_bytes_);
    }
  }

  void check(int result) const {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) { return; }
    const char* words = archive_error_string(archive_.get());
    refuse("it cannot be unpacked: {}", words != nullptr ? words : "libarchive failed");
  }

  std::string name_;
  const UnpackLimits& limits_;
  UniqueFd file_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  std::uint64_t packed_bytes_ = 0, bytes_ = 0, members_ = 0;
};

/// The members of an evidence bundle, as they come.
class BundleContent {
 public:
  explicit BundleContent(PackedFile& packed, std::string name) : packed_(packed), name_(std::move(name)) {}

  /// Whether it is the bundle's folder or one below it, which tar writes where it packs a folder.
  static bool is_folder(archive_entry* entry) {
    const char* path = archive_entry_pathname(entry);
    std::string name = path != nullptr ? path : "";
    if (!name.ends_with('/')) { name += '/'; }
    return archive_entry_filetype(entry) == AE_IFDIR && name.starts_with(bundle_folder) &&
           is_plain_path(std::string_view(name).substr(0, name.size() - 1));
  }

  /// The member's name without the bundle's folder; refuses what is not a plain file below it.
  std::string name_of(archive_entry* entry) const {
    const char* path = archive_entry_pathname(entry);
    const std::string name = path != nullptr ? path : "";
    const bool is_file =
        archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr;
    if (!is_file || !name.starts_with(bundle_folder) || !is_plain_path(name)) {
      packed_.refuse("\"{}\" is not a plain file below {}", excerpt(name), bundle_folder);
    }
    return name.substr(bundle_folder.size());
  }

  void take(const std::string& name) {
    Sha256 hash;
    packed_.read([&](std::string_view bytes) {
      hash.update(bytes);
      if (name == records_name) { records_.write(bytes, name_); }
      if (name == checksums_name) { sums_ += bytes; }
      if (sums_.size() > longest_sums_bytes) { packed_.refuse("its SHA256SUMS is too long"); }
    });
    if (!hashes_.emplace(name, hash.finish()).second) {
      packed_.refuse("\"{}\" is in it twice", excerpt(name));
    }
  }

  TemporaryText verified() {
    if (!hashes_.contains(records_name) || !hashes_.contains(checksums_name)) {
      packed_.refuse("an evidence bundle has {} and {}, and this one does not", records_name, checksums_name);
    }
    Checksums checksums(sums_, name_);
    for (const auto& [name, hash] : hashes_) {
      if (name != checksums_name) { checksums.check(name, hash); }
    }
    checksums.finish();
    records_.finish(name_);
    return std::move(records_);
  }

 private:
  PackedFile& packed_;
  std::string name_;
  TemporaryText records_;
  std::string sums_;
  std::map<std::string, std::string> hashes_;
};

UnpackedText whole_text(PackedFile& packed, const std::string& name) {
  UnpackedText unpacked{{}, name};
  packed.read([&](std::string_view bytes) { unpacked.text.write(bytes, name); });
  unpacked.text.finish(name);
  return unpacked;
}

/// All bytes of the file, whether an archive or not.
UnpackedText unpack_text(const fs::path& file, const std::string& name, const UnpackLimits& limits) {
  PackedFile packed(file, name, limits, false);
  if (packed.next() == nullptr) { packed.refuse("there is nothing in it"); }
  return whole_text(packed, name);
}

}  // namespace

bool is_packed(const fs::path& file) {
  auto in = open_stream(file);
  std::string start(4, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.starts_with("\x1f\x8b") || start == "\x28\xb5\x2f\xfd";
}

std::optional<UnpackedText> unpack(const fs::path& file, const std::string& name,
                                   const UnpackLimits& limits) {
  PackedFile packed(file, name, limits, true);
  auto* entry = packed.next();
  // NUL bytes are the end of a tar archive, so that a file of nothing else is one without members.
  if (entry == nullptr) { return unpack_text(file, name, limits); }
  if (packed.is_single_text()) { return whole_text(packed, name); }
  const char* first = archive_entry_pathname(entry);
  if (first == nullptr || !std::string_view(first).starts_with(bundle_folder)) { return std::nullopt; }
  BundleContent content(packed, name);
  for (; entry != nullptr; entry = packed.next()) {
    if (!BundleContent::is_folder(entry)) { content.take(content.name_of(entry)); }
  }
  return UnpackedText{content.verified(), name + "/" + records_name};
}

}  // namespace virtrain::results
