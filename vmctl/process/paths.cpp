#include "vmctl/process/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/error.h"
#include "common/files/user_folders.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Others pass through, QEMU's user among them, to files whose names they know; the journal and the locks are
/// closed by their own modes.
constexpr unsigned state_mode = 0711;
/// Nothing in the images is secret: they are made of files that every user may read.
constexpr unsigned cache_mode = 0755;

fs::path made(const fs::path& folder, unsigned mode) {
  make_own_folder(folder, mode);
  return folder;
}

/// Whether every user may pass through the folder and its parents, as QEMU's must.
bool traversable_by_all(fs::path folder) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IXOTH) == 0) { return false; }
    if (folder == folder.root_path()) { break; }
  }
  return true;
}

}  // namespace

fs::path state_dir() {
  if (const auto chosen = variable("VIRTRAIN_STATE_DIR"); !chosen.empty()) {
    return made(chosen, state_mode);
  }
  if (::geteuid() == 0) { return made("/var/lib/virtrain", state_mode); }
  return made(user_folder("XDG_STATE_HOME", ".local/state") / "virtrain", state_mode);
}

fs::path user_cache_dir() {
  return user_folder("XDG_CACHE_HOME", ".cache");
}

fs::path cache_dir() {
  if (const auto chosen = variable("VIRTRAIN_CACHE_DIR"); !chosen.empty()) {
    return made(chosen, cache_mode);
  }
  const auto wanted = user_cache_dir() / "virtrain";
  if (::geteuid() == 0 && !traversable_by_all(wanted)) { return made("/var/cache/virtrain", cache_mode); }
  return made(wanted, cache_mode);
}

fs::path sibling_program(std::string_view name) {
  std::error_code failed;
  const auto here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Beside us (a build tree), or where `cmake --install` puts helpers.
  for (const auto& candidate : {here / name, here / "../libexec/virtrain" / name}) {
    if (fs::exists(candidate)) { return candidate.lexically_normal(); }
  }
  throw Error(
      "find " + std::string(name), ErrorCode::not_found,
      "it should lie in " + here.string() + " or ../libexec/virtrain; build all targets or reinstall");
}

}  // namespace virtrain::vmctl
