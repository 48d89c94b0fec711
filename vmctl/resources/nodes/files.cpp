#include <filesystem>

#include "common/files/file_lock.h"
#include "common/files/open_folder.h"
#include "common/files/reading.h"
#include "common/system/process_info.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Left by a killed image build; while somebody builds, the lock is taken.
void find_build_folders(Search& search) {
  const auto images = cache_dir() / "images";
  std::error_code ignored;
  if (!fs::exists(images, ignored)) { return; }
  const auto lock = try_lock_file(locks_of_images(images) / build_lock, LockKind::exclusive);
  if (!lock) { return; }
  for (const auto& folder : entries_of(images)) {
    if (folder.filename().string().starts_with(".build-")) {
      search.add({EffectKind::file, folder.string(), "", "folder of an unfinished image build"});
    }
  }
}

void find_channel_folders(Search& search) {
  for (const auto& folder : entries_of("/var/lib/libvirt/qemu/channel/target")) {
    const auto domain = domain_of_folder(folder.filename().string());
    if (search.knows_libvirt() && domain && !search.has_domain_like(*domain)) {
      search.add_held(holder_of(folder_owner(folder)),
                      {EffectKind::file, folder.string(), "", "channel folder of a domain that is gone"});
    }
  }
}

/// Left where a run was killed and its journal is lost.
void find_temporary_folders(Search& search) {
  for (const auto& folder : entries_of("/dev/shm")) {
    const auto slice = slice_of_unforeseen(folder.filename().string());
    if (!slice || search.is_journalled(folder.string())) { continue; }
    search.add_unmarked(folder_owner(folder),
                        {EffectKind::file, folder.string(), "", "temporary files of a slice"},
                        search.used_slices.contains(*slice) || search.is_live_name(*slice));
  }
}

void find_files(Search& search) {
  for (const auto& effect : search.effects) {
    std::error_code unknown;  // a name in /tmp may be anybody's link by now, to itself for one
    const bool is_there = fs::symlink_status(effect.name, unknown).type() != fs::file_type::not_found;
    if (effect.kind == EffectKind::file && is_there) {
      search.add({EffectKind::file, effect.name, effect.owner.experiment, "file in the journal"});
    }
  }
  find_build_folders(search);
  find_channel_folders(search);
  find_temporary_folders(search);
}

/// A run's own libvirt daemon lives on where the run and the process that stays behind were both killed. It
/// says itself which folder is its own, so it must belong to whom that was given.
void end_daemon_of(const fs::path& folder) {
  for (const auto& process : all_processes()) {
    const bool is_libvirt = process.name == "libvirtd" || process.name == "virtqemud";
    if (!is_libvirt || process_variable(process.pid, "XDG_RUNTIME_DIR") != folder.string() ||
        user_of(process.pid) != folder_owner(folder)) {
      continue;
    }
    kill_and_wait(process.pid, process.start_time);
  }
}

void remove_file(const Leftover& found, Hypervisor* /*unused*/) {
  end_daemon_of(found.name);
  fs::remove_all(found.name);
}

}  // namespace

const Handler file_handler{.kind = EffectKind::file, .find = find_files, .remove = remove_file};

}  // namespace virtrain::vmctl
