#include "vmctl/guest/cloud/image_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/text/sha256.h"
#include "common/text/units.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/hypervisor/qemu_process.h"
#include "vmctl/process/calling_user.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

UniqueFd open_as_caller(const fs::path& image, const std::string& operation) {
  const AsUser coordinator(coordinator_user());
  auto file = open_to_read(image);
  if (file) { return file; }
  const bool is_other_kind = errno == EINVAL || errno == EISDIR;
  throw Error(operation, ErrorCode::host_unable,
              is_other_kind ? "it is not a regular file" : std::strerror(errno));
}

/// Its size.
off_t require_room(int image, const fs::path& images, const std::string& operation) {
  struct stat status {};
  if (::fstat(image, &status) != 0) { throw errno_error(operation, errno); }
  constexpr std::uint64_t block_bytes = 512;
  const auto needed = static_cast<std::uint64_t>(status.st_blocks) * block_bytes;
  if (const auto free = fs::space(images).available; free < needed) {
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("it takes {}, and {} has {} left", format_size(needed), images.string(),
                            format_size(free)));
  }
  return status.st_size;
}

void write_all(int file, std::string_view bytes, const std::string& operation) {
  while (!bytes.empty()) {
    const auto written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) { throw errno_error(operation, errno); }
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

/// The digest of what is in the copy then.
std::string copy_content(int from, int to, off_t most, const std::string& operation,
                         const Cancelled& cancelled) {
  const bool is_clone = ::ioctl(to, FICLONE, from) == 0;
  Sha256 digest;
  off_t size = 0;
  const bool is_whole = read_pieces(is_clone ? to : from, [&](std::string_view bytes) {
    end_if(cancelled, operation);
    digest.update(bytes);
    size += static_cast<off_t>(bytes.size());
    if (size > most) { throw Error(operation, ErrorCode::host_unable, "it grows meanwhile"); }
    if (is_clone) { return true; }
    const bool is_hole = bytes.find_first_not_of('\0') == std::string_view::npos;
    if (!is_hole) { write_all(to, bytes, operation); }
    if (is_hole && ::lseek(to, size, SEEK_SET) != size) { throw errno_error(operation, errno); }
    return true;
  });
  if (!is_whole || (!is_clone && ::ftruncate(to, size) != 0)) { throw errno_error(operation, errno); }
  return digest.finish();
}

/// An image may be somebody's own: besides root only QEMU's user reads the copy.
void close_to_others(int copy, const std::string& operation) {
  constexpr mode_t owner_reads = 0400;
  if (::fchmod(copy, owner_reads) != 0) { throw errno_error(operation, errno); }
  for (const auto* name : qemu_accounts) {
    const auto* account = ::geteuid() == 0 ? ::getpwnam(name) : nullptr;
    if (account == nullptr) { continue; }
    if (::fchown(copy, account->pw_uid, static_cast<gid_t>(-1)) != 0) { throw errno_error(operation, errno); }
    return;
  }
}

}  // namespace

ImageCopy copy_image(const fs::path& image, const fs::path& cache_dir, const Cancelled& cancelled,
                     const std::string& what) {
  const auto operation = "copy the " + what + " " + image.string();
  const auto source = open_as_caller(image, operation);
  const auto images = cache_dir / "images";
  make_own_folder(images, 0755);
  const auto size = require_room(source.get(), images, operation);
  const WorkFolder work{make_work_folder(images)};
  const auto made = work.path / "disk";
  const UniqueFd copy(::open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!copy) { throw errno_error(operation, errno); }
  auto digest = copy_content(source.get(), copy.get(), size, operation, cancelled);
  const auto hash = digest.substr(0, length_of_image_hash);
  close_to_others(copy.get(), operation);
  if (::fsync(copy.get()) != 0) { throw errno_error(operation, errno); }
  auto hold = hold_image(images, hash);
  const auto folder = images / hash;
  make_own_folder(folder, 0755);
  fs::rename(made, folder / "disk");  // of the same content, where there is one
  prune_images(images);
  return {folder / "disk", std::move(digest), std::move(hold)};
}

}  // namespace virtrain::vmctl
