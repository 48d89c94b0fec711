#include "vmctl/slice/temporary_folder.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string_view>

#include "common/error.h"
#include "common/files/open_folder.h"

namespace virtrain::vmctl {

std::string unforeseen_folder(const std::filesystem::path& otherwise, const std::string& node) {
  constexpr const char* memory = "/dev/shm";
  struct statfs kind {};
  struct stat status {};
  constexpr std::uint64_t enough_bytes = std::uint64_t{32} << 20;  // Docker gives 64 MiB
  const bool in_memory = ::statfs(memory, &kind) == 0 && kind.f_type == TMPFS_MAGIC &&
                         kind.f_bavail * static_cast<std::uint64_t>(kind.f_bsize) >= enough_bytes &&
                         ::stat(memory, &status) == 0 && is_trusted_owner(status.st_uid) &&
                         (status.st_mode & S_ISVTX) != 0 && ::access(memory, W_OK | X_OK) == 0;
  std::random_device device;
  const auto random = (static_cast<std::uint64_t>(device()) << 32) | device();
  const auto name = fmt::format("virtrain-{}-{:016x}", node, random);
  return (in_memory ? std::filesystem::path(memory) : otherwise) / name;
}

std::optional<std::string> slice_of_unforeseen(const std::string& name) {
  constexpr std::string_view before = "virtrain-";
  constexpr std::size_t random_digits = 16;
  const auto dash = name.rfind('-');
  if (!name.starts_with("virtrain-vt-") || name.size() - dash - 1 != random_digits) { return std::nullopt; }
  return name.substr(before.size(), dash - before.size());
}

void make_folder_of(const std::string& folder, const Identity& user) {
  constexpr mode_t owner_only = 0700;
  const bool made = ::mkdir(folder.c_str(), owner_only) == 0;
  // In its parent only we may change names.
  const bool is_theirs =
      made && (user.user == ::geteuid() || ::lchown(folder.c_str(), user.user, user.group) == 0);
  if (!is_theirs) { throw errno_error("make folder " + folder, errno); }
}

}  // namespace virtrain::vmctl
