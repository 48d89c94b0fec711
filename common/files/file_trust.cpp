#include "common/files/file_trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/text/printable.h"

namespace virtrain {

bool is_trusted_owner(uid_t owner) {
  struct stat root {};
  return owner == 0 || owner == ::geteuid() || (::lstat("/", &root) == 0 && owner == root.st_uid);
}

uid_t folder_owner(const std::filesystem::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_uid : 0;
}

void refuse_links_of_others(const std::filesystem::path& path, const std::string& operation) {
  for (auto part = std::filesystem::absolute(path).lexically_normal(); part.has_relative_path();
       part = part.parent_path()) {
    struct stat status {};
    if (::lstat(part.c_str(), &status) != 0 || !S_ISLNK(status.st_mode) || is_trusted_owner(status.st_uid)) {
      continue;
    }
    throw Error(
        operation, ErrorCode::host_unable,
        fmt::format("{} is a link that belongs to user {}, who could turn it elsewhere; give the path "
                    "that it leads to",
                    excerpt(part.string()), status.st_uid));
  }
}

}  // namespace virtrain
