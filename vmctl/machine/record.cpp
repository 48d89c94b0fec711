#include "vmctl/machine/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "vmctl/machine/host_words.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_file_bytes = 1U << 20;
constexpr const char* pci_links = "sys/bus/pci/devices";

constexpr std::array single_files = {
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/cmdline",
    "proc/driver/nvidia/version",
    "proc/pressure/cpu",
    "proc/pressure/io",
    "proc/stat",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/random/boot_id",
    "proc/sys/net/bridge/bridge-nf-call-iptables",
    "proc/sys/vm/nr_overcommit_hugepages",
    "proc/sys/vm/overcommit_memory",
    "sys/class/misc/kvm/dev",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/smt/active",
    "sys/fs/cgroup/machine.slice/memory.max",
    "sys/kernel/mm/ksm/run",
    "sys/module/apparmor/parameters/enabled",
    "sys/module/nvidia_peermem/refcnt",
    "sys/module/nvidia_vgpu_vfio/refcnt",
    "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
    "usr/share/nvidia/nvswitch/fabricmanager.cfg",
};

/// A folder and the names of files that are recorded below it, so many folders down.
struct Tree {
  const char* folder;
  int depth;
  std::array<std::string_view, 4> names;  ///< "*": all
};
constexpr std::array trees = {
    Tree{"etc/modprobe.d", 0, {"*"}},
    Tree{"proc/driver/nvidia/capabilities", 4, {"access"}},
    Tree{"proc/driver/nvidia/gpus", 1, {"information"}},
    Tree{"sys/devices/system/cpu", 3, {"thread_siblings_list", "level", "shared_cpu_list"}},
    Tree{"sys/devices/system/cpu/vulnerabilities", 0, {"*"}},
    Tree{"sys/devices/system/node", 3, {"meminfo", "cpulist", "free_hugepages", "nr_hugepages"}},
};

constexpr std::array function_files = {"class",
                                       "config",
                                       "current_link_speed",
                                       "current_link_width",
                                       "d3cold_allowed",
                                       "device",
                                       "driver_override",
                                       "max_link_speed",
                                       "max_link_width",
                                       "numa_node",
                                       "power_state",
                                       "reset_method",
                                       "resource",
                                       "sriov_numvfs",
                                       "sriov_offset",
                                       "sriov_stride",
                                       "sriov_totalvfs",
                                       "vendor",
                                       "aer_dev_correctable",
                                       "aer_dev_fatal",
                                       "aer_dev_nonfatal",
                                       "enforce_isolation"};
constexpr std::array function_trees = {
    Tree{"mdev_supported_types", 1, {"name", "description", "available_instances", "device_api"}},
    Tree{"nvidia", 0, {"creatable_vgpu_types", "current_vgpu_type"}},
    Tree{"infiniband", 3, {"state", "rate", "link_layer"}},
    Tree{"net", 1, {"mtu"}},
    Tree{"vfio-dev", 1, {"dev"}},
};
/// Services that checks look for (names of processes have 15 characters).
constexpr std::array<std::string_view, 5> services = {"nv-fabricmanage", "nvidia-persiste", "nvidia-vgpu-mgr",
                                                      "libvirtd", "virtqemud"};

/// Files below one new folder. By its descriptor: whoever owns the folder above may exchange names there.
class Recording {
 public:
  explicit Recording(const fs::path& folder) : name_(folder.string()) {
    const auto normal = fs::absolute(folder).lexically_normal();
    const FilePlace place(normal.has_filename() ? normal : normal.parent_path(), "record this host");
    if (::mkdirat(place.folder.get(), place.name.c_str(), 0755) != 0) {
      if (errno == EEXIST) {
        throw Error("record this host", ErrorCode::bad_input, name_ + " exists already (name a new folder)");
      }
      throw errno_error("make the folder " + name_, errno);
    }
    root_ = UniqueFd(
        ::openat(place.folder.get(), place.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root_) { throw errno_error("open the folder " + name_, errno); }
  }

  void write(const fs::path& path, const std::string& text) const {
    make_folders(path.parent_path());
    const UniqueFd file(
        ::openat(root_.get(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file && errno == EEXIST) { return; }
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      throw errno_error("write " + name_ + "/" + path.string(), errno);
    }
  }
  void link(const fs::path& path, const fs::path& target) const {
    make_folders(path.parent_path());
    if (::symlinkat(target.c_str(), root_.get(), path.c_str()) != 0 && errno != EEXIST) {
      throw errno_error("write " + name_ + "/" + path.string(), errno);
    }
  }

 private:
  void make_folders(const fs::path& path) const {
    fs::path so_far;
    for (const auto& part : path) {
      so_far /= part;
      if (::mkdirat(root_.get(), so_far.c_str(), 0755) != 0 && errno != EEXIST) {
        throw errno_error("write " + name_ + "/" + so_far.string(), errno);
      }
    }
  }

  std::string name_;
  UniqueFd root_;
};

void copy_file(const Recording& recording, const fs::path& path) {
  if (const auto text = read_file(fs::path("/") / path, most_file_bytes)) { recording.write(path, *text); }
}

/// As sysfs has it: relative, so that it leads to the recorded place.
void copy_link(const Recording& recording, const fs::path& path) {
  std::error_code failure;
  const auto target = fs::read_symlink(fs::path("/") / path, failure);
  if (!failure && target.is_relative()) { recording.link(path, target); }
}

void copy_tree(const Recording& recording, const fs::path& folder, int depth,
               const std::array<std::string_view, 4>& names) {
  for (const auto& name : entry_names(fs::path("/") / folder)) {
    std::error_code failure;
    const auto status = fs::symlink_status(fs::path("/") / folder / name, failure);
    if (fs::is_directory(status) && depth > 0) { copy_tree(recording, folder / name, depth - 1, names); }
    if (fs::is_regular_file(status) &&
        (names[0] == "*" || std::ranges::find(names, std::string_view(name)) != names.end())) {
      copy_file(recording, folder / name);
    }
  }
}

void copy_function(const Recording& recording, const std::string& address) {
  const auto link = fs::path(pci_links) / address;
  std::error_code failure;
  const auto folder = fs::canonical(fs::path("/") / link, failure).relative_path();
  if (failure) { return; }
  copy_link(recording, link);
  for (const auto* name : function_files) { copy_file(recording, folder / name); }
  for (const auto& name : entry_names(fs::path("/") / folder)) {
    if (name == "driver" || name == "iommu_group" || name == "physfn" || name.starts_with("virtfn")) {
      copy_link(recording, folder / name);
    }
  }
  for (const auto& tree : function_trees) {
    copy_tree(recording, folder / tree.folder, tree.depth, tree.names);
  }
}

void copy_groups(const Recording& recording) {
  const fs::path groups = "sys/kernel/iommu_groups";
  for (const auto& group : entry_names(fs::path("/") / groups)) {
    for (const auto& device : entry_names(fs::path("/") / groups / group / "devices")) {
      copy_link(recording, groups / group / "devices" / device);
    }
  }
}

void copy_services(const Recording& recording) {
  for (const auto& pid : entry_names("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) { continue; }
    const auto comm = read_value(fs::path("/proc") / pid / "comm").value_or("");
    if (std::ranges::find(services, comm) != services.end()) {
      recording.write(fs::path("proc") / pid / "comm", comm + "\n");
    }
  }
}

}  // namespace

void record_host(const fs::path& folder) {
  const Recording recording(folder);
  for (const auto* file : single_files) { copy_file(recording, file); }
  for (const auto& tree : trees) { copy_tree(recording, tree.folder, tree.depth, tree.names); }
  for (const auto& address : entry_names(fs::path("/") / pci_links)) { copy_function(recording, address); }
  copy_groups(recording);
  copy_services(recording);
  for (const auto& [name, text] : words_to_record()) {
    recording.write(fs::path("var/lib/virtrain") / name, text);
  }
}

}  // namespace virtrain::vmctl
