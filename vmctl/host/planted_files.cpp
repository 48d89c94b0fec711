#include "vmctl/host/planted_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr mode_t own_file = 0600, own_folder = 0700, all_may_read = 0644;

/// A file that goes with this object.
class ControlFile {
 public:
  ControlFile(const RunState& run, const std::string& text, mode_t mode)
      : path_(run.log_dir / "control-canary") {
    write_file_atomically(path_, text, mode);
  }
  ~ControlFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  ControlFile(const ControlFile&) = delete;
  ControlFile& operator=(const ControlFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check(const fs::path& path, mode_t allowed, ModeReport& report) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) { return; }
  ++report.files;
  const mode_t mode = status.st_mode & 07777;
  if ((mode & ~allowed) != 0) { report.loose.push_back({path, mode, allowed}); }
}

}  // namespace

std::vector<fs::path> PlantedFiles::plant(RunState& run, const Canary& canary) {
  std::vector<fs::path> paths{home_folder() / (".virtrain-canary-" + run.tag()),
                              state_dir() / ("canary-" + run.tag())};
  if (::geteuid() == 0) { paths.push_back("/etc/virtrain-canary-" + run.tag()); }
  for (const auto& path : paths) {
    const auto id = run.journal.intent(run.owner, EffectKind::file, path.string());
    files_.emplace_back(path, id);
    write_file_atomically(path, canary.text + "\n", own_file);
    run.journal.done(id);
  }
  return paths;
}

std::uint64_t PlantedFiles::plant_in_memory(const Canary& canary) {
  page_ = std::make_unique<LockedPage>();
  canary.text.copy(page_->data(), LockedPage::size);
  return page_->physical_address();
}

void PlantedFiles::remove(RunState& run) {
  page_.reset();
  for (; !files_.empty(); files_.pop_back()) {
    fs::remove(files_.back().first);
    run.journal.undone(files_.back().second);
  }
}

SearchReport search_leftovers(const RunState& run, const std::vector<Canary>& canaries,
                              const Canary& control) {
  const ControlFile file(run, control.text + "\n", own_file);
  auto all = canaries;
  all.push_back(control);
  return search_files(all, {state_dir(), cache_dir(), claims_folder(), "/var/log/libvirt/qemu",
                            "/var/lib/libvirt/qemu", "/run/libvirt/qemu", "/dev/shm"});
}

ModeReport check_modes(const RunState& run) {
  ModeReport report;
  const ControlFile control(run, "", all_may_read);
  for (const auto& path : entries_of(state_dir())) {
    const auto name = path.filename().string();
    if (name.starts_with("leases.db") || name.ends_with(".lock")) { check(path, own_file, report); }
  }
  check(claims_folder(), own_folder, report);
  for (const auto& path : entries_of(run.log_dir)) {
    if (fs::is_regular_file(fs::symlink_status(path))) { check(path, own_file, report); }
  }
  const auto is_control = [&](const LooseFile& one) { return one.path == control.path(); };
  report.found_control = std::erase_if(report.loose, is_control) == 1;
  --report.files;
  return report;
}

}  // namespace virtrain::vmctl
