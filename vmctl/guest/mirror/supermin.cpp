#include "vmctl/guest/mirror/supermin.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <set>
#include <utility>

#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/process/private_user.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* out_folder = "out";  ///< of each step, in its folder

/// Every guest has a shell, the usual tools, and Open MPI with its plug-ins.
const std::vector<std::string> base_packages = {"bash",        "coreutils", "dash", "grep",
                                                "hostname",    "iproute2",  "kmod", "mount",
                                                "openmpi-bin", "procps",    "sed"};

/// No training job reads these files; smaller images are faster to build and to keep.
constexpr const char* excluded =
    "-/usr/share/doc/*\n-/usr/share/man/*\n-/usr/share/locale/*\n-/usr/share/info/*\n-/usr/share/i18n/*\n"
    "-/usr/share/lintian/*\n-/usr/share/bash-completion/*\n-/usr/share/zoneinfo/*\n-/usr/include/*\n-/boot/"
    "*\n";

/// The guest's whole /etc. Nothing of the host's configuration travels.
const std::vector<std::pair<std::string, std::string>> etc = {
    {"passwd",
     "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"},
    {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
    {"hosts", "127.0.0.1 localhost\n"},
    {"hostname", "guest\n"},
};

/// A command of the build, which ends early where the build is cancelled.
void run_step(const std::vector<std::string>& argv, CommandOptions options, const Cancelled& cancelled) {
  constexpr const char* operation = "build the guest image";
  options.deadline = build_step_deadline;
  run_cancellable(argv, options, cancelled, operation);
}

/// One step of the build: what it may write to is a folder of its own, which is root's again afterwards. What
/// its user cannot read cannot leak into a guest.
fs::path run_unprivileged(const fs::path& folder, const std::vector<std::string>& argv,
                          const std::vector<std::string>& environment, const Cancelled& cancelled) {
  const PrivateUser builder;
  builder.make_folder(folder);
  CommandOptions options;
  options.plain_environment = true;
  options.environment = environment;
  options.environment.push_back("HOME=" + folder.string());
  options.environment.push_back("TMPDIR=" + folder.string());
  options.environment.push_back("LC_ALL=C");
  run_step(builder.command(argv), options, cancelled);
  builder.take_back(folder);
  return folder / out_folder;
}

fs::path under(const fs::path& root, const std::string& absolute) {
  return root / fs::path(in_usr(absolute)).relative_path();
}

void stage_file(const fs::path& source, const fs::path& target) {
  fs::create_directories(target.parent_path());
  std::error_code failed;
  fs::copy_file(source, target, failed);
  if (failed) { throw Error("copy " + source.string() + " for the guest", ErrorCode::io, failed.message()); }
  ::chmod(target.c_str(), 0755);
}

/// Our own base.tar in place of the base.tar.gz that `supermin --prepare` fills with the host's
/// configuration.
void make_base_tar(const SuperminRequest& request, const fs::path& tar) {
  const auto stage = request.work / "stage";
  for (const auto* folder : {"etc", "root", "dev", "proc", "sys", "run", "tmp", "ro", "var/tmp"}) {
    fs::create_directories(stage / folder);
  }
  for (const auto& [name, content] : etc) { write_file_atomically(stage / "etc" / name, content); }
  for (const auto& file : request.files) { stage_file(file.source, under(stage, file.target)); }
  for (const auto& file : request.needs.unpackaged_files) { stage_file(file, under(stage, file)); }
  for (const auto& [path, content] : request.texts) {
    fs::create_directories(under(stage, path).parent_path());
    write_file_atomically(under(stage, path), content);
  }
  for (const auto& [link, target] : request.needs.symlinks) {
    fs::create_directories(under(stage, link).parent_path());
    fs::create_symlink(target, under(stage, link));
  }
  // With CUDA's libraries it is more than a gigabyte, and lives for seconds: not worth compressing.
  run_step({"tar", "--owner=0", "--group=0", "--sort=name", "-C", stage.string(), "-cf", tar.string(), "."},
           {}, request.cancelled);
  fs::remove_all(stage);
  ::chmod(tar.c_str(), 0644);
}

/// The size that supermin takes by itself, plus room for twice the libraries: CUDA's are gigabytes, and their
/// packages may have more. The file has holes where it is empty.
std::string disk_size(const SuperminRequest& request) {
  constexpr std::uintmax_t least_gib = 4;
  auto bytes = request.needs.library_bytes;
  for (const auto& file : request.files) { bytes += fs::file_size(file.source); }
  return fmt::format("{}G", least_gib + (2 * bytes >> 30U));
}

/// supermin silently drops packages that are not installed.
void check_packages(const fs::path& prepared, const std::set<std::string>& wanted) {
  std::set<std::string> got;
  for (const auto& line : split(read_file(prepared / "packages").value_or(""), '\n')) {
    if (!line.empty()) { got.insert(line); }
  }
  std::vector<std::string> missing;
  std::set_difference(wanted.begin(), wanted.end(), got.begin(), got.end(), std::back_inserter(missing));
  if (!missing.empty()) {
    throw Error(
        "choose the guest's packages", ErrorCode::host_unable,
        "not installed here: " + join(missing, " ") + " (apt-get install " + join(missing, " ") + ")");
  }
}

/// Runs a program that looks at a file, on a disk that others may be using, and returns its output.
std::string looked_at(const std::vector<std::string>& argv) {
  return run_checked(argv, patient_look()).out;
}

/// Files below the folder; links carry no content of the host and do not count.
std::vector<std::string> files_below(const fs::path& image, const std::string& folder) {
  std::vector<std::string> entries;  // "/inode/mode/uid/gid/name/size/"
  for (const auto& line : split(looked_at({"debugfs", "-R", "ls -p " + folder, image.string()}), '\n')) {
    const auto fields = split(line, '/');
    if (fields.size() < 6 || fields[5] == "." || fields[5] == "..") { continue; }
    const bool is_folder = fields[2].starts_with("04"), is_link = fields[2].starts_with("12");
    if (!is_folder && !is_link) { entries.push_back(folder + "/" + fields[5]); }
    if (is_folder) {
      for (auto& below : files_below(image, folder + "/" + fields[5])) {
        entries.push_back(std::move(below));
      }
    }
  }
  return entries;
}

/// The host's configuration must not be in the guest, whatever a package or a new supermin does.
void check_etc(const fs::path& image) {
  std::set<std::string> allowed;
  for (const auto& [name, content] : etc) { allowed.insert("/etc/" + name); }
  for (const auto& file : files_below(image, "/etc")) {
    if (!allowed.contains(file)) {
      throw Error("check the guest image", ErrorCode::host_unable,
                  file + " got into it, which is not on the list of files that may");
    }
  }
}

std::vector<std::string> read_packages(const fs::path& image) {
  const auto text = looked_at({"debugfs", "-R", "cat /packagelist", image.string()});
  std::vector<std::string> packages;
  for (const auto& line : split(text, '\n')) {
    if (!trim(line).empty()) { packages.emplace_back(trim(line)); }
  }
  std::ranges::sort(packages);
  return packages;
}

/// Version order as people mean it: 6.1.0-9 before 6.1.0-10.
bool older(const std::string& a, const std::string& b) {
  return ::strverscmp(a.c_str(), b.c_str()) < 0;
}

}  // namespace

GuestKernel find_guest_kernel(const fs::path& root) {
  std::vector<std::string> versions, closed;
  constexpr std::string_view prefix = "vmlinuz-";
  for (const auto& file : entries_of(root / "boot")) {
    const auto name = file.filename().string();
    if (!name.starts_with(prefix)) { continue; }
    const auto version = name.substr(prefix.size());
    if (!fs::exists(root / "lib/modules" / version / "modules.dep")) { continue; }
    (::access(file.c_str(), R_OK) == 0 ? versions : closed).push_back(version);
  }
  if (versions.empty() && !closed.empty()) {
    throw Error("find a kernel for the guest", ErrorCode::host_unable,
                fmt::format("/boot/vmlinuz-{0} may only be read by root (run as root, or chmod a+r "
                            "/boot/vmlinuz-{0})",
                            *std::ranges::max_element(closed, older)));
  }
  if (versions.empty()) {
    throw Error(
        "find a kernel for the guest", ErrorCode::host_unable,
        "no kernel under /boot has its modules under /lib/modules: apt-get install linux-image-cloud-amd64");
  }
  struct utsname running {};
  ::uname(&running);
  const bool has_running = std::ranges::find(versions, running.release) != versions.end();
  const auto version =
      has_running ? std::string(running.release) : *std::ranges::max_element(versions, older);
  return {root / "boot" / (std::string(prefix) + version), root / "lib/modules" / version, version};
}

std::string unpacked_overlay_module(const GuestKernel& kernel) {
  constexpr std::array<std::pair<const char*, const char*>, 3> tools = {
      {{".xz", "xz"}, {".zst", "zstd"}, {".gz", "gzip"}}};
  for (const auto& [suffix, tool] : tools) {
    const auto file = (kernel.modules / "kernel/fs/overlayfs/overlay.ko").string() + suffix;
    if (fs::exists(file)) { return looked_at({tool, "-dc", file}); }
  }
  return {};
}

fs::path make_work_folder(const fs::path& images) {
  auto name = (images / ".build-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw errno_error("make a folder under " + images.string(), errno);
  }
  ::chmod(name.c_str(), 0755);
  return name;
}

Error explain_full_disk(const Error& failure, const fs::path& images, std::uintmax_t free_bytes) {
  constexpr std::uintmax_t little_bytes = std::uintmax_t{16} << 20;
  if (failure.code() != ErrorCode::io || free_bytes >= little_bytes) { return failure; }
  return Error(failure.operation(), failure.code(),
               fmt::format("{} ({} has {} left: free space there, or choose another folder with "
                           "VIRTRAIN_CACHE_DIR)",
                           failure.message(), images.string(), format_size(free_bytes)));
}

SuperminResult run_supermin(const SuperminRequest& request) {
  if (!fs::exists("/usr/bin/supermin")) {
    throw Error("build the guest image", ErrorCode::host_unable,
                "supermin is not installed: apt-get install supermin");
  }
  std::set<std::string> wanted(base_packages.begin(), base_packages.end());
  wanted.insert(request.needs.packages.begin(), request.needs.packages.end());
  wanted.insert(request.extra_packages.begin(), request.extra_packages.end());

  const auto prepare_folder = request.work / "prepare", build_folder = request.work / "build";
  std::vector<std::string> prepare{"supermin", "--prepare", "--use-installed"};
  prepare.insert(prepare.end(), wanted.begin(), wanted.end());
  prepare.insert(prepare.end(), {"-o", (prepare_folder / out_folder).string()});
  const auto prepared = run_unprivileged(prepare_folder, prepare, {}, request.cancelled);
  check_packages(prepared, wanted);

  fs::remove(prepared / "base.tar.gz");
  make_base_tar(request, prepared / "base.tar");
  write_file_atomically(prepared / "excludefiles", excluded);
  ::chmod((prepared / "excludefiles").c_str(), 0644);
  // The distribution may keep /boot/vmlinuz-* readable by root only.
  const auto kernel = request.work / "vmlinuz";
  stage_file(request.kernel.file, kernel);
  const auto built = run_unprivileged(
      build_folder,
      {"supermin", "--build", "-f", "ext2", "--size", disk_size(request), "--copy-kernel",
       "--include-packagelist", prepared.string(), "-o", (build_folder / out_folder).string()},
      {"SUPERMIN_KERNEL=" + kernel.string(), "SUPERMIN_MODULES=" + request.kernel.modules.string(),
       "SUPERMIN_KERNEL_VERSION=" + request.kernel.version},
      request.cancelled);
  check_etc(built / "root");
  return {built, read_packages(built / "root")};
}

}  // namespace virtrain::vmctl
