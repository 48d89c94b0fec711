#include "vmctl/cloud/cloud_image.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "vmctl/cloud/iso_image.h"
#include "vmctl_embedded.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSeedLabel = "cidata";  // of cloud-init's data source NoCloud

/// For a shell to read. Its values are host names, addresses and the like, without quotes of their own.
std::string node_variables(const CloudSeed& seed) {
  std::vector<std::string> hosts;
  for (const auto& host : seed.boot.hosts) hosts.push_back(host.name + ":" + host.address);
  return fmt::format("HOST='{}'\nADDRESS='{}'\nMAC='{}'\nHOSTS='{}'\n", seed.boot.hostname, seed.boot.address,
                     seed.boot.address.empty() ? "" : seed.mac, join(hosts, " "));
}

nlohmann::json file(const char* path, const char* permissions, const std::string& content) {
  return {{"path", path}, {"permissions", permissions}, {"content", content}};
}

}  // namespace

CloudImage inspect_cloud_image(const fs::path& path) {
  const auto operation = "look at the guest image " + path.string();
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(operation, ErrorCode::host_unable, "there is no such file");
  constexpr mode_t kReadableByAll = 0004;
  if ((status.st_mode & kReadableByAll) == 0)
    throw Error(operation, ErrorCode::host_unable, "QEMU's user may not read it (chmod a+r)");
  const auto answer = run_checked({"qemu-img", "info", "--output=json", path.string()}).out;
  const auto info = parse_json_or_null(answer);
  const auto format = info.is_object() ? info.value("format", "") : "";
  if (format != "qcow2" && format != "raw")
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("its format is {} (allowed: qcow2, raw)", format.empty() ? "unknown" : format));
  if (info.contains("backing-filename"))
    throw Error(operation, ErrorCode::host_unable,
                "it is based on another file (make it whole: qemu-img convert -O qcow2)");
  const auto identity = fmt::format("{} {} {}.{}", fs::absolute(path).string(), status.st_size,
                                    status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  constexpr std::size_t kHashLength = 32;
  return {fs::absolute(path), format, sha256(identity).substr(0, kHashLength)};
}

void make_overlay(const CloudImage& image, const fs::path& overlay) {
  run_checked({"qemu-img", "create", "-q", "-f", "qcow2", "-b", image.file.string(), "-F", image.format,
               overlay.string()});
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
  write_iso(path, kSeedLabel,
            {{"meta-data", cloud_meta_data(seed, instance_id)},
             {"user-data", cloud_user_data(seed)},
             {"network-config", cloud_network_config()}});
}

}  // namespace virtrain::vmctl
