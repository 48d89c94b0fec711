#include "vmctl/process/host_claims.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "common/error.h"
#include "common/files/file_lock.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/text/printable.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr unsigned owner_only = 0700;

/// The claim, or Error(busy). Somebody who only looks has it for a moment, so a moment is waited.
UniqueFd claim(const fs::path& file) {
  constexpr std::chrono::milliseconds look{300};
  while (true) {
    auto fd = lock_file(file, LockKind::exclusive, look);
    struct stat locked {};
    if (::fstat(fd.get(), &locked) == 0 && locked.st_nlink > 0) { return fd; }
    // Its holder let go of it, and of the file, while we waited: the next one is another file.
  }
}

void write_owner(const UniqueFd& fd, const std::string& owner) {
  const auto text = owner + "\n";
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), text.data(), text.size(), 0) < 0) {
    throw errno_error("claim what the run needs of this host", errno);
  }
}

}  // namespace

HostClaims::HostClaims(fs::path folder) : folder_(std::move(folder)) {
  make_own_folder(folder_, owner_only);
  // Killed runs leave their names behind, though locked by nobody; those of cores are taken again some day.
  for (const auto& file : entries_of(folder_)) {
    if (file.filename().string().starts_with(experiment_claim)) {
      if (const auto unused = try_lock_file(file, LockKind::exclusive)) { ::unlink(file.c_str()); }
    }
  }
}

void HostClaims::take(const std::vector<std::string>& names, const std::string& owner) {
  std::map<std::string, UniqueFd> taken;
  const auto give_back = [&] {
    for (const auto& [name, fd] : taken) { ::unlink((folder_ / name).c_str()); }
  };
  for (const auto& name : names) {
    try {
      auto fd = claim(folder_ / name);
      write_owner(fd, owner);
      taken[name] = std::move(fd);
    } catch (const Error& error) {
      give_back();
      if (error.code() != ErrorCode::busy) { throw; }
      const auto holder = read_value(folder_ / name).value_or("");
      throw Error("lease " + name, ErrorCode::busy,
                  "held by " + (holder.empty() ? "another run" : printable(holder)));
    }
  }
  held_.merge(taken);
}

void HostClaims::release() {
  // The file first, while it is locked: whoever waits to lock it sees that it is gone.
  for (const auto& [name, fd] : held_) { ::unlink((folder_ / name).c_str()); }
  held_.clear();
}

fs::path claims_folder() {
  if (::geteuid() == 0) { return "/run/virtrain"; }
  const auto own = fs::path("/run/user") / std::to_string(::geteuid());
  std::error_code none;
  return fs::is_directory(own, none) ? own / "virtrain"
                                     : fs::path(fmt::format("/tmp/virtrain-{}", ::geteuid()));
}

std::vector<std::string> held_claims(const fs::path& folder) {
  std::vector<std::string> held;
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) {
    return held;
  }
  for (const auto& file : entries_of(folder)) {
    const auto name = file.filename().string();
    if (is_locked(file)) { held.push_back(name); }
  }
  return held;
}

std::vector<std::string> held_claims(const fs::path& folder, const std::string& kind) {
  std::vector<std::string> held;
  for (const auto& name : held_claims(folder)) {
    if (name.starts_with(kind)) { held.push_back(name.substr(kind.size())); }
  }
  return held;
}

}  // namespace virtrain::vmctl
