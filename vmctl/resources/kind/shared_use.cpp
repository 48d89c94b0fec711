#include "vmctl/resources/kind/shared_use.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "common/files/file_lock.h"
#include "common/files/user_folders.h"
#include "vmctl/process/host_claims.h"

namespace virtrain::vmctl {
namespace {

std::filesystem::path lock_of(const std::string& name) {
  constexpr unsigned owner_only = 0700;
  make_own_folder(claims_folder(), owner_only);
  std::string file = "use:" + name;
  std::replace(file.begin(), file.end(), '/', '_');
  return claims_folder() / file;
}

}  // namespace

UniqueFd use_shared(const std::string& name) {
  constexpr std::chrono::seconds undoing{30};  // a service takes its time to start
  return lock_file(lock_of(name), LockKind::shared, undoing);
}

UniqueFd try_keep_unused(const std::string& name) {
  return try_lock_file(lock_of(name), LockKind::exclusive);
}

}  // namespace virtrain::vmctl
