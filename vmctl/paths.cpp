#include "vmctl/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/error.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path made(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("make folder " + folder.string(), ErrorCode::io, failed.message());
  return folder;
}

fs::path home() {
  const auto value = variable("HOME");
  return value.empty() ? fs::path("/") : fs::path(value);
}

/// Whether every user may pass through the folder and its parents, as QEMU's must.
bool traversable_by_all(fs::path folder) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IXOTH) == 0) return false;
    if (folder == folder.root_path()) break;
  }
  return true;
}

}  // namespace

fs::path state_dir() {
  if (const auto chosen = variable("VIRTRAIN_STATE_DIR"); !chosen.empty()) return made(chosen);
  if (::geteuid() == 0) return made("/var/lib/virtrain");
  const auto base = variable("XDG_STATE_HOME");
  return made((base.empty() ? home() / ".local/state" : fs::path(base)) / "virtrain");
}

fs::path user_cache_dir() {
  const auto base = variable("XDG_CACHE_HOME");
  return base.empty() ? home() / ".cache" : fs::path(base);
}

fs::path cache_dir() {
  if (const auto chosen = variable("VIRTRAIN_CACHE_DIR"); !chosen.empty()) return made(chosen);
  const auto wanted = user_cache_dir() / "virtrain";
  if (::geteuid() == 0 && !traversable_by_all(wanted)) return made("/var/cache/virtrain");
  return made(wanted);
}

fs::path sibling_program(std::string_view name) {
  std::error_code failed;
  const auto here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Beside us (a build tree), or where `cmake --install` puts helpers.
  for (const auto& candidate : {here / name, here / "../libexec/virtrain" / name})
    if (fs::exists(candidate)) return candidate.lexically_normal();
  throw Error(
      "find " + std::string(name), ErrorCode::not_found,
      "it should lie in " + here.string() + " or ../libexec/virtrain; build all targets or reinstall");
}

}  // namespace virtrain::vmctl
