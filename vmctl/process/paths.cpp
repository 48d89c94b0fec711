#include "vmctl/process/paths.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

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
/// The images hold no secret: they are made of files that every user may read.
constexpr unsigned cache_mode = 0755;

constexpr const char* state_variable = "VIRTRAIN_STATE_DIR";
constexpr const char* cache_variable = "VIRTRAIN_CACHE_DIR";

fs::path made(const fs::path& named, unsigned mode, const char* chosen_by) {
  const auto folder = fs::absolute(named);  // the journal and libvirt outlive the folder that we are in
  try {
    make_own_folder(folder, mode);
  } catch (const Error& error) {
    throw Error(error.operation(), error.code(),
                error.message() + " (" + chosen_by + " may name another folder)");
  }
  return folder;
}

}  // namespace

fs::path state_dir() {
  const auto in = [](const fs::path& folder) { return made(folder, state_mode, state_variable); };
  if (const auto chosen = variable(state_variable); !chosen.empty()) { return in(chosen); }
  if (::geteuid() == 0) { return in("/var/lib/virtrain"); }
  return in(user_folder("XDG_STATE_HOME", ".local/state") / "virtrain");
}

fs::path user_cache_dir() {
  return user_folder("XDG_CACHE_HOME", ".cache");
}

fs::path cache_dir() {
  const auto in = [](const fs::path& folder) { return made(folder, cache_mode, cache_variable); };
  if (const auto chosen = variable(cache_variable); !chosen.empty()) { return in(chosen); }
  const auto wanted = user_cache_dir() / "virtrain";
  return in(::geteuid() == 0 && !is_open_to_all(wanted) ? "/var/cache/virtrain" : wanted);
}

bool is_open_to_all(fs::path folder) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    struct stat status {};
    const bool has_list = ::getxattr(folder.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
    if (::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IXOTH) == 0 && !has_list) {
      return false;
    }
    if (folder == folder.root_path()) { break; }
  }
  return true;
}

std::string closed_to_qemu() {
  try {
    for (const auto& [folder, name] :
         {std::pair(cache_dir(), cache_variable), std::pair(state_dir(), state_variable)}) {
      if (!is_open_to_all(folder)) {
        return folder.string() + " lies in a folder that QEMU's user may not enter (" + name +
               " may name another one)";
      }
    }
    return "";
  } catch (const Error& error) { return error.what(); }
}

}  // namespace virtrain::vmctl
