#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "vmctl/guest/mirror/guest_packages.h"

namespace virtrain::vmctl {

struct MirrorSpec {
  std::vector<CarriedFile> files;  ///< among them the agent at /usr/bin/virtrain-agent, which init starts
  std::vector<std::string> extra_packages;           ///< beside the base tools and what `files` need
  std::filesystem::path cache_dir;                   ///< see vmctl::cache_dir()
  std::map<std::string, std::string> symlinks = {};  ///< further ones: path in the guest to what it names
  std::map<std::string, std::string> texts = {};     ///< small files of our own: path in the guest to content
  /// Further files of the host that the image depends on, though they come into it by another way.
  std::vector<std::filesystem::path> depends_on = {};
  Cancelled cancelled = {};
};

/// A bootable mirror of this host; files of the cache, shared by all VMs, never written.
struct GuestImage {
  std::filesystem::path kernel;
  std::filesystem::path initrd;
  std::filesystem::path root;
  std::string hash;                   ///< of everything that went into it
  std::string kernel_version;         ///< "6.1.0-56-cloud-amd64"
  std::vector<std::string> packages;  ///< "name_version_arch" of each package in it
  bool from_cache = false;
  std::shared_ptr<const UniqueFd> hold = {};  ///< while it lives, nobody prunes the image from the cache
};

/// Says what is being done, for a progress line.
using ImageProgress = std::function<void(std::string_view)>;

/// Returns the cached image of these inputs or builds it (seconds; one builder at a time, others wait).
/// Throws Error(host_unable) with the apt command where something is missing.
GuestImage build_mirror_image(const MirrorSpec& spec, const ImageProgress& progress = {});

/// Whether the cache has the image of these inputs, by their inodes and times: milliseconds, and nothing is
/// made. Throws Error where an input is missing.
bool has_mirror_image(const MirrorSpec& spec);

struct GuestDriver;
/// The image's guests get the host's GPU driver too.
void carry_driver(MirrorSpec& spec, const GuestDriver& driver);

/// Digits of an image's digest in the name of its folder in the cache.
inline constexpr std::size_t length_of_image_hash = 32;
/// From now on nobody prunes it; who does so just now is waited for.
std::shared_ptr<const UniqueFd> hold_image(const std::filesystem::path& images, const std::string& hash);
/// Old images go once there are several newer ones, unless a run uses them; an hour's grace for what was
/// used.
void prune_images(const std::filesystem::path& images);

/// Removes the work folder whatever happens.
struct WorkFolder {
  std::filesystem::path path;
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

/// Where the locks of a cache's images lie; made if absent.
std::filesystem::path locks_of_images(const std::filesystem::path& images);
/// Name of the lock that whoever builds an image has.
inline constexpr const char* build_lock = "build";

}  // namespace virtrain::vmctl
