#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// Journal and pid files: $VIRTRAIN_STATE_DIR, else /var/lib/virtrain as root, else $XDG_STATE_HOME/virtrain.
/// Made if absent.
std::filesystem::path state_dir();
/// Where programs of this user keep what can be made again: $XDG_CACHE_HOME, else ~/.cache. Not made.
std::filesystem::path user_cache_dir();
/// Images and probe results: $VIRTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/virtrain, else ~/.cache/virtrain; as
/// root /var/cache/virtrain where QEMU's user could not traverse to it (a 0700 home). Made if absent.
std::filesystem::path cache_dir();
/// Whether every user may pass through the folder and its parents, as QEMU's must, as far as modes tell: an
/// access control list may let that one in.
bool is_open_to_all(std::filesystem::path folder);
/// Why the QEMU of the system's libvirt, which runs as a user of its own unless qemu.conf says otherwise,
/// could not reach images and logs in these folders; empty: it can.
std::string closed_to_qemu();
}  // namespace virtrain::vmctl
