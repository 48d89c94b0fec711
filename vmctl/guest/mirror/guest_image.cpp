#include "vmctl/guest/mirror/guest_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/files/file_lock.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/files/user_folders.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "vmctl/guest/archives.h"
#include "vmctl/guest/mirror/guest_driver.h"
#include "vmctl/guest/mirror/guest_packages.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Raised when the recipe in supermin.cpp or the guest's layout changes, so that cached images are made anew.
constexpr const char* recipe = "mirror-2";

enum class FileIdentity { by_stat, by_content };

/// A word that changes when the file does: cheap from its inode, or sure from its content.
std::string file_identity(const fs::path& file, FileIdentity how) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) { throw errno_error("look at " + file.string(), errno); }
  if (how == FileIdentity::by_content) { return sha256_of_file(file); }
  return fmt::format("{}:{}:{}:{}.{:09}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

struct Inputs {
  MirrorSpec spec;
  GuestKernel kernel;
  fs::path init;
};

/// Parts of an image that come from no file of the host.
std::string made_for(const MirrorSpec& spec) {
  std::string text;
  for (const auto& [link, target] : spec.symlinks) {
    text.append("\n").append(link).append(" -> ").append(target);
  }
  for (const auto& [path, content] : spec.texts) {
    text.append("\n").append(path).append(" = ").append(sha256(content));
  }
  return text;
}

/// Everything that can change the image, as one hash.
std::string key_of(const Inputs& inputs, FileIdentity how) {
  std::string text = recipe;
  text += "\ninit " + file_identity(inputs.init, how) + "\nkernel " + inputs.kernel.version + " " +
          file_identity(inputs.kernel.file, FileIdentity::by_stat);
  text += "\npackages " + file_identity("/var/lib/dpkg/status", how) + " " +
          join(inputs.spec.extra_packages, " ");
  for (const auto& file : inputs.spec.files) {
    text += "\n" + file.target + " " + file_identity(file.source, how);
  }
  for (const auto& file : inputs.spec.depends_on) {
    text += "\n" + file.string() + " " + file_identity(file, how);
  }
  return sha256(text + made_for(inputs.spec));
}

/// Locks lie in a folder of their own that others cannot enter: what QEMU's user must read, every user may
/// open, and whoever has a file open can lock it.
fs::path lock_of(const fs::path& images, const std::string& name) {
  return locks_of_images(images) / name;
}

nlohmann::json read_manifest(const fs::path& folder) {
  return parse_json(read_file(folder / "manifest.json").value_or("{}"),
                    "read " + (folder / "manifest.json").string(), ErrorCode::io);
}

GuestImage load_image(const fs::path& folder, std::shared_ptr<const UniqueFd> hold) {
  const auto manifest = read_manifest(folder);
  GuestImage image;
  image.kernel = folder / "kernel";
  image.initrd = folder / "initrd";
  image.root = folder / "root";
  image.hash = manifest.at("hash").get<std::string>();
  image.kernel_version = manifest.at("kernel_version").get<std::string>();
  image.packages = manifest.at("packages").get<std::vector<std::string>>();
  image.hold = std::move(hold);
  return image;
}

/// Libraries that no package owns (CUDA's, from a tar file or PyPI), as they were when the image was made.
nlohmann::json library_identities(const GuestNeeds& needs) {
  auto identities = nlohmann::json::object();
  for (const auto& file : needs.unpackaged_files) {
    identities[file] = file_identity(file, FileIdentity::by_stat);
  }
  return identities;
}

bool libraries_are_unchanged(const fs::path& folder) {
  const auto manifest = read_manifest(folder);
  const auto libraries = manifest.value("libraries", nlohmann::json::object());
  for (const auto& [file, identity] : libraries.items()) {
    if (!fs::exists(file) || identity != file_identity(file, FileIdentity::by_stat)) { return false; }
  }
  return true;
}

constexpr const char* image_files[] = {"kernel", "initrd", "root", "manifest.json"};

bool is_whole(const fs::path& image) {
  return std::ranges::all_of(image_files, [&](const char* name) { return fs::exists(image / name); });
}

Inputs inputs_of(const MirrorSpec& spec) {
  return {spec, find_guest_kernel(), sibling_program("virtrain-guest-init")};
}

std::optional<GuestImage> find_image(const fs::path& images, const std::string& key) {
  const auto hash = read_value(images / "keys" / key);
  if (!hash || hash->empty()) { return std::nullopt; }
  const auto folder = images / *hash;
  auto hold = hold_image(images, *hash);
  if (!is_whole(folder) || !libraries_are_unchanged(folder)) { return std::nullopt; }
  ::utimensat(AT_FDCWD, folder.c_str(), nullptr, 0);  // used now: pruning goes by this
  auto image = load_image(folder, std::move(hold));
  image.from_cache = true;
  return image;
}

/// As content_hash() names images.
bool is_hash(const std::string& name) {
  return name.size() == length_of_image_hash &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Hash of what is in the image: the same inputs give the same name wherever and whenever they are built.
std::string content_hash(const Inputs& inputs, const std::vector<std::string>& packages,
                         const GuestNeeds& needs) {
  std::string text = recipe;
  text += "\nkernel " + inputs.kernel.version + " " + sha256_of_file(inputs.kernel.file) + "\ninit " +
          sha256_of_file(inputs.init);
  for (const auto& package : packages) { text += "\npackage " + package; }
  for (const auto& file : inputs.spec.files) {
    text += "\n" + file.target + " " + sha256_of_file(file.source);
  }
  for (const auto& file : inputs.spec.depends_on) {
    text += "\n" + file.string() + " " + sha256_of_file(file);
  }
  for (const auto& file : needs.unpackaged_files) { text += "\n" + file + " " + sha256_of_file(file); }
  return sha256(text + made_for(inputs.spec)).substr(0, length_of_image_hash);
}

/// Makes the written data outlast a power cut.
void sync_file(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) { throw errno_error("write " + path.string(), errno); }
}

void finish_folder(const fs::path& folder, const Inputs& inputs, const nlohmann::json& manifest) {
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  auto initrd = read_file(folder / "initrd", most_bytes).value_or("") +
                newc_archive("init", read_file(inputs.init, most_bytes).value_or(""));
  if (const auto overlay = unpacked_overlay_module(inputs.kernel); !overlay.empty()) {
    initrd += newc_archive("overlay.ko", overlay);
  }
  write_file_atomically(folder / "initrd", initrd);
  write_file_atomically(folder / "manifest.json", manifest.dump(1) + "\n");
  for (const auto* name : image_files) { ::chmod((folder / name).c_str(), 0644); }
  ::chmod(folder.c_str(), 0755);
  for (const auto& file : {folder / "kernel", folder / "root", folder}) { sync_file(file); }
}

SuperminResult run_explained(const fs::path& images, const SuperminRequest& request) {
  try {
    return run_supermin(request);
  } catch (const Error& error) {
    std::error_code unknown;
    const auto space = fs::space(images, unknown);  // -1 where it is not known
    throw explain_full_disk(error, images, space.available);
  }
}

GuestImage build(const Inputs& inputs, const fs::path& images, const ImageProgress& progress) {
  const auto say = [&](std::string_view what) {
    if (progress) { progress(what); }
  };
  std::vector<fs::path> programs;
  for (const auto& file : inputs.spec.files) { programs.push_back(file.source); }
  say("looking up the packages of the guest");
  auto needs = find_needs(programs);
  needs.symlinks.insert(inputs.spec.symlinks.begin(), inputs.spec.symlinks.end());
  const WorkFolder work{make_work_folder(images)};
  say("building the guest image from installed packages");
  const auto built = run_explained(images, {work.path, inputs.kernel, inputs.spec.files, inputs.spec.texts,
                                            inputs.spec.extra_packages, needs, inputs.spec.cancelled});
  const auto hash = content_hash(inputs, built.packages, needs);
  const nlohmann::json manifest = {{"hash", hash},
                                   {"kernel_version", inputs.kernel.version},
                                   {"packages", built.packages},
                                   {"libraries", library_identities(needs)},
                                   {"recipe", recipe}};
  finish_folder(built.folder, inputs, manifest);
  if (is_whole(images / hash)) {
    write_file_atomically(images / hash / "manifest.json", manifest.dump(1) + "\n");
  } else {
    std::error_code ignored;
    fs::remove_all(images / hash, ignored);
    fs::rename(built.folder, images / hash);
  }
  prune_images(images);
  return load_image(images / hash, hold_image(images, hash));
}

}  // namespace

GuestImage build_mirror_image(const MirrorSpec& spec, const ImageProgress& progress) {
  const auto agent = [](const CarriedFile& file) { return file.target == guest_agent; };
  if (std::ranges::none_of(spec.files, agent)) {
    throw Error("build the guest image", ErrorCode::bad_input,
                std::string("no file is carried to ") + guest_agent + ", which the guest starts");
  }
  const auto inputs = inputs_of(spec);
  const auto images = spec.cache_dir / "images";
  constexpr unsigned readable_by_all = 0755;
  for (const auto& folder : {images, images / "keys"}) { make_own_folder(folder, readable_by_all); }

  const auto quick_key = key_of(inputs, FileIdentity::by_stat);
  if (auto image = find_image(images, quick_key)) { return *image; }
  const auto lock =
      lock_file(lock_of(images, build_lock), LockKind::exclusive, longest_build, spec.cancelled);
  const auto sure_key = key_of(inputs, FileIdentity::by_content);
  auto image = find_image(images, sure_key);
  if (!image) { image = build(inputs, images, progress); }
  for (const auto& key : {quick_key, sure_key}) {
    write_file_atomically(images / "keys" / key, image->hash + "\n");
  }
  return *image;
}

bool has_mirror_image(const MirrorSpec& spec) {
  const auto images = spec.cache_dir / "images";
  const auto hash = read_value(images / "keys" / key_of(inputs_of(spec), FileIdentity::by_stat));
  return hash && !hash->empty() && is_whole(images / *hash) && libraries_are_unchanged(images / *hash);
}

void carry_driver(MirrorSpec& spec, const GuestDriver& driver) {
  spec.files.insert(spec.files.end(), driver.files.begin(), driver.files.end());
  spec.symlinks.insert(driver.symlinks.begin(), driver.symlinks.end());
  spec.texts.insert(driver.texts.begin(), driver.texts.end());
  spec.depends_on.push_back(driver.kernel_module);
}

std::shared_ptr<const UniqueFd> hold_image(const fs::path& images, const std::string& hash) {
  constexpr std::chrono::seconds pruning{60};
  return std::make_shared<const UniqueFd>(lock_file(lock_of(images, hash), LockKind::shared, pruning));
}

void prune_images(const fs::path& images) {
  constexpr std::size_t keep = 3;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const auto& folder : entries_of(images)) {
    if (is_hash(folder.filename().string()) || fs::exists(folder / "manifest.json")) {
      found.emplace_back(fs::last_write_time(folder), folder);
    }
  }
  std::sort(found.rbegin(), found.rend());
  const auto grace = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code ignored;
  for (std::size_t i = keep; i < found.size(); ++i) {
    const auto& [used, folder] = found[i];
    if (used >= grace) { continue; }
    if (try_lock_file(lock_of(images, folder.filename()), LockKind::exclusive)) {
      fs::remove_all(folder, ignored);
    }
  }
  for (const auto& key : entries_of(images / "keys")) {
    const auto hash = read_value(key);
    if (!hash || hash->empty() || !fs::exists(images / *hash, ignored)) { fs::remove(key, ignored); }
  }
}

fs::path locks_of_images(const fs::path& images) {
  constexpr unsigned owner_only = 0700;
  make_own_folder(images / "locks", owner_only);
  return images / "locks";
}

}  // namespace virtrain::vmctl
