#include "results/exchange/files/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "common/error.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

std::string hidden_name(const std::string& beside) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    throw errno_error("make a folder next to " + beside, errno);
  }
  return fmt::format(".{}.{:016x}", beside, random);
}

}  // namespace

WorkFolder::WorkFolder(const fs::path& beside) : place_(beside, "make a folder next to " + beside.string()) {
  constexpr mode_t owner_only = 0700;
  place_.name = hidden_name(place_.name);
  named_ = fs::absolute(beside).parent_path() / place_.name;
  const auto operation = "make " + named_.string();
  const auto parent = place_.folder.get();
  if (::mkdirat(parent, place_.name.c_str(), owner_only) != 0) { throw errno_error(operation, errno); }
  folder_ = UniqueFd(::openat(parent, place_.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!folder_ || ::fstat(folder_.get(), &status) != 0) { throw errno_error(operation, errno); }
  // In a folder of theirs, others may have put one of their own in its place.
  if (status.st_uid != ::geteuid() || (status.st_mode & 07777) != owner_only) {
    throw Error(operation, ErrorCode::host_unable,
                "another user has replaced it; write to a folder of your own");
  }
}

WorkFolder::~WorkFolder() {
  if (!folder_) { return; }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path(), ignored)) { fs::remove_all(entry.path(), ignored); }
  ::unlinkat(place_.folder.get(), place_.name.c_str(), AT_REMOVEDIR);
}

fs::path WorkFolder::path() const {
  return fs::path("/proc/self/fd") / std::to_string(folder_.get());
}

}  // namespace virtrain::results
