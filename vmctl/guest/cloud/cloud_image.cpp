#include "vmctl/guest/cloud/cloud_image.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "vmctl/guest/archives.h"
#include "vmctl/process/paths.h"
#include "vmctl_embedded.h"

namespace virtrain::vmctl {
namespace {

/// How many bytes of a disk image tell what it is.
inline constexpr std::size_t disk_header_bytes = 512;

/// Facts from the first bytes of a disk image.
struct DiskHeader {
  std::string format;               ///< "qcow2", "raw" (of no known format), or the name of another one
  std::uint64_t virtual_bytes = 0;  ///< of a qcow2 image; of others the file's size
  std::string refusal;              ///< why no guest may have it, with what to do; empty: none
};

using namespace std::string_view_literals;

constexpr std::string_view qcow_magic = "QFI\xfb";
constexpr std::array<std::pair<std::string_view, const char*>, 11> other_formats{{
    {"KDMV"sv, "vmdk"},
    {"COWD"sv, "vmdk"},
    {"# Disk DescriptorFile"sv, "vmdk"},
    {"<<< "sv, "vdi"},
    {"vhdxfile"sv, "vhdx"},
    {"conectix"sv, "vpc"},
    {"QED\0"sv, "qed"},
    {"LUKS\xba\xbe"sv, "luks"},
    {"WithoutFreeSpace"sv, "parallels"},
    {"WithouFreSpacExt"sv, "parallels"},
    {"OOOO CoW"sv, "cow"},
}};

std::uint64_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) { value = value << 8U | static_cast<unsigned char>(bytes[at + i]); }
  return value;
}

/// Why a guest may not have a qcow2 image of this header.
std::string refusal_of(std::string_view bytes, std::uint64_t version) {
  constexpr std::size_t version3_bytes = 104;
  constexpr std::uint64_t corrupt = 2, external_data = 4, unknown = ~std::uint64_t{0b11111};
  constexpr const char* convert = "make it whole: qemu-img convert -O qcow2";
  if (big_endian(bytes, 8, 8) != 0) { return fmt::format("it is based on another file ({})", convert); }
  if (big_endian(bytes, 32, 4) != 0) { return "it is encrypted (decrypt it: qemu-img convert -O qcow2)"; }
  if (version == 2) { return {}; }
  if (bytes.size() < version3_bytes) { return "its header is cut short"; }
  const auto features = big_endian(bytes, 72, 8);
  if ((features & external_data) != 0) { return fmt::format("its data is in another file ({})", convert); }
  if ((features & corrupt) != 0) { return "it is marked as corrupt (qemu-img check -r all)"; }
  if ((features & unknown) != 0) {
    return fmt::format("it has unknown features ({:#x})", features & unknown);
  }
  return {};
}

/// Pure, so that no program with rights ever opens an image that is not trusted: a qcow2 file names other
/// files (backing file, external data file) that whoever opens it would read. docs/interop/qcow2.rst of QEMU.
DiskHeader read_disk_header(std::string_view bytes, std::uint64_t file_bytes) {
  constexpr std::size_t version2_bytes = 72;
  constexpr std::uint64_t most_bytes = std::uint64_t{16} << 40U;
  for (const auto& [magic, name] : other_formats) {
    if (bytes.starts_with(magic)) { return {name, file_bytes, ""}; }
  }
  if (!bytes.starts_with(qcow_magic)) { return {"raw", file_bytes, ""}; }
  DiskHeader header{"qcow2", 0, ""};
  if (bytes.size() < version2_bytes) {
    header.refusal = "its header is cut short";
    return header;
  }
  const auto version = big_endian(bytes, 4, 4);
  if (version != 2 && version != 3) { return {fmt::format("qcow version {}", version), file_bytes, ""}; }
  header.virtual_bytes = big_endian(bytes, 24, 8);
  header.refusal = refusal_of(bytes, version);
  if (header.refusal.empty() && (header.virtual_bytes == 0 || header.virtual_bytes > most_bytes)) {
    header.refusal = fmt::format("its disk has {} bytes (at most 16 TiB)", header.virtual_bytes);
  }
  return header;
}

namespace fs = std::filesystem;

constexpr const char* seed_label = "cidata";  // of cloud-init's data source NoCloud

/// For a shell to read. Its values are host names, addresses and the like, without quotes of their own.
std::string node_variables(const CloudSeed& seed) {
  std::vector<std::string> hosts;
  for (const auto& host : seed.boot.hosts) { hosts.push_back(host.name + ":" + host.address); }
  return fmt::format("HOST='{}'\nADDRESS='{}'\nMAC='{}'\nMTU='{}'\nHOSTS='{}'\nPAYLOAD='{}'\n",
                     seed.boot.hostname, seed.boot.address, seed.boot.address.empty() ? "" : seed.mac,
                     seed.boot.mtu ? std::to_string(*seed.boot.mtu) : "", join(hosts, " "),
                     seed.boot.has_payload ? "yes" : "");
}

nlohmann::json file(const char* path, const char* permissions, const std::string& content) {
  return {{"path", path}, {"permissions", permissions}, {"content", content}};
}

}  // namespace

CloudImage inspect_cloud_image(const fs::path& path, ImageReader reader) {
  const bool by_qemu = reader == ImageReader::qemu;
  const auto operation = "look at the guest image " + path.string();
  const auto refuse = [&](const std::string& why) { throw Error(operation, ErrorCode::host_unable, why); };
  const auto file = open_to_read(path);
  struct stat status {};
  if (!file && errno == EACCES) {
    refuse(by_qemu ? "QEMU's user may not read it (chmod a+r)" : "you may not read it");
  }
  if (!file && (errno == EINVAL || errno == EISDIR)) { refuse("it is not a regular file"); }
  if (!file || ::fstat(file.get(), &status) != 0) { refuse("there is no such file"); }
  if (by_qemu && ::geteuid() == 0 && !is_open_to_all(fs::absolute(path).parent_path())) {
    refuse("it lies in a folder that QEMU's user may not enter (move it, or chmod a+x)");
  }
  constexpr mode_t readable_by_all = 0004;
  if (by_qemu && (status.st_mode & readable_by_all) == 0) {
    refuse("QEMU's user may not read it (chmod a+r)");
  }
  std::string bytes(disk_header_bytes, '\0');
  const auto got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) { throw errno_error(operation, errno); }
  bytes.resize(static_cast<std::size_t>(got));
  const auto header = read_disk_header(bytes, static_cast<std::uint64_t>(status.st_size));
  if (header.format != "qcow2" && header.format != "raw") {
    refuse(fmt::format("its format is {} (allowed: qcow2, raw)", header.format));
  }
  if (!header.refusal.empty()) { refuse(header.refusal); }
  const auto identity = fmt::format("{} {} {}.{}", fs::absolute(path).string(), status.st_size,
                                    status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  constexpr std::size_t hash_length = 32;
  return {fs::absolute(path), header.format, sha256(identity).substr(0, hash_length), header.virtual_bytes};
}

void make_overlay(const CloudImage& image, const fs::path& overlay) {
  // -u: qemu-img, which may run as root here, does not open the image.
  run_checked({"qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", image.file.string(), "-F", image.format,
               overlay.string(), std::to_string(image.virtual_bytes)});
  constexpr mode_t owner_only = 0600;  // libvirt gives it to QEMU's user
  if (::chmod(overlay.c_str(), owner_only) != 0) { throw errno_error("close " + overlay.string(), errno); }
}

std::string cloud_meta_data(const CloudSeed& seed, const std::string& instance_id) {
  return nlohmann::json{{"instance-id", instance_id}, {"local-hostname", seed.boot.hostname}}.dump() + "\n";
}

// JSON is YAML too, and nothing in it needs quoting by hand. By a shell's name, for nothing under Debian's
// /run may be executed.
std::string cloud_user_data(const CloudSeed& seed) {
  const nlohmann::json config = {
      {"write_files",
       {file("/run/virtrain/node", "0644", node_variables(seed)),
        file("/run/virtrain/start", "0644", std::string(start_sh))}},
      {"runcmd",
       {{"systemd-run", "--unit=virtrain-agent", "--property=StandardOutput=journal+console",
         "--property=StandardError=journal+console", "/bin/sh", "/run/virtrain/start"}}},
      {"package_update", false},
      {"ssh_pwauth", false}};
  return "#cloud-config\n" + config.dump() + "\n";
}

std::string cloud_network_config() {
  return "{\"config\": \"disabled\"}\n";
}

void write_seed(const CloudSeed& seed, const std::string& instance_id, const fs::path& path) {
  write_iso(path, seed_label,
            {{"meta-data", cloud_meta_data(seed, instance_id)},
             {"user-data", cloud_user_data(seed)},
             {"network-config", cloud_network_config()}});
  constexpr mode_t readable_by_qemu = 0644;  // whatever the caller's umask is
  if (::chmod(path.c_str(), readable_by_qemu) != 0) { throw errno_error("open " + path.string(), errno); }
}

}  // namespace virtrain::vmctl
