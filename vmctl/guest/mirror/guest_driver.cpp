#include "vmctl/guest/mirror/guest_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/guest/node_settings.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Where the guest's linker looks without a cache.
constexpr const char* guest_libraries = "/usr/lib/x86_64-linux-gnu/";

/// Driver libraries that CUDA and NVML load; libcuda opens the others by name.
constexpr std::array driver_libraries = {"libcuda",           "libnvidia-ml",   "libnvidia-ptxjitcompiler",
                                         "libnvidia-gpucomp", "libnvidia-nvvm", "libnvidia-cfg"};

/// nvidia-modprobe loads the modules and makes the device nodes when a program first wants a GPU, for a guest
/// has no udev; virtrain asks nvidia-smi; nvidia-gridd fetches the licence of a vGPU.
struct Tool {
  const char* path;
  const char* package;  ///< that a guest cannot do without; null: it can
};
constexpr std::array tools = {Tool{"usr/bin/nvidia-smi", "Debian: nvidia-smi, Ubuntu: nvidia-utils-…"},
                              Tool{"usr/bin/nvidia-modprobe", "Debian and Ubuntu: nvidia-modprobe"},
                              Tool{"usr/bin/nvidia-gridd", nullptr}};

/// Where a module lies tells who put it there.
struct ModuleHome {
  const char* folder;
  const char* origin;
};
constexpr std::array module_homes = {
    ModuleHome{"updates/dkms", "DKMS"}, ModuleHome{"kernel/drivers/video", "run file"},
    ModuleHome{"kernel", "packages"}, ModuleHome{"updates", "packages"}, ModuleHome{"extra", "packages"}};

[[noreturn]] void unusable(const std::string& why) {
  throw Error("carry the NVIDIA driver into the guest", ErrorCode::host_unable, why);
}

/// "580.95.05" of "libcuda.so.580.95.05"; nothing for another library, a link's short name, or no file.
std::optional<std::string> version_of(const fs::path& file, const std::string& library) {
  const auto name = file.filename().string();
  const auto prefix = library + ".so.";
  std::error_code ignored;
  if (!name.starts_with(prefix) || fs::is_symlink(file, ignored)) { return std::nullopt; }
  const auto version = name.substr(prefix.size());
  return version.find('.') == std::string::npos ? std::nullopt : std::optional(version);
}

/// nvidia.ko; Debian names it by its series, and whether its sources are open: nvidia-current.ko,
/// nvidia-current-open.ko, nvidia-tesla-535.ko. Any may be compressed.
bool is_driver(const fs::path& file) {
  const std::string name = file.filename().string();
  Scanner in(name);
  if (!in.take("nvidia")) { return false; }
  if (in.take("-current") || in.take("-tesla")) {
    if (in.rest().size() > 1 && in.rest()[0] == '-' && is_digit(in.rest()[1])) {
      in.take("-");
      in.take_while(is_digit);
    }
    in.take("-open");
  }
  return in.take(".ko") && (in.at_end() || in.take("."));
}

std::optional<std::pair<fs::path, std::string>> find_module(const fs::path& modules) {
  for (const auto& home : module_homes) {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(modules / home.folder, ignored)) {
      if (is_driver(entry.path())) { found.push_back(entry.path()); }
    }
    if (!found.empty()) { return std::pair(*std::ranges::min_element(found), home.origin); }
  }
  return std::nullopt;
}

std::string module_version(const fs::path& module) {
  return std::string(trim(run_checked({"modinfo", "-F", "version", module.string()}).out));
}

struct LibraryFolder {
  fs::path path;
  std::string version;
};

std::optional<LibraryFolder> find_libraries(const fs::path& root) {
  auto folders = entries_of(root / fs::path(driver_series_folder).relative_path());
  for (const auto* folder : driver_library_folders) {
    folders.push_back(root / fs::path(folder).relative_path());
  }
  for (const auto& folder : folders) {
    for (const auto& file : entries_of(folder)) {
      if (const auto version = version_of(file, "libcuda")) { return LibraryFolder{folder, *version}; }
    }
  }
  return std::nullopt;
}

void add_libraries(const LibraryFolder& from, GuestDriver& driver) {
  std::map<std::string, std::string> names;  // in the folder, by the file that each leads to
  for (const auto& entry : entries_of(from.path)) {
    std::error_code broken;
    const auto target = fs::canonical(entry, broken);
    if (!broken && fs::is_symlink(entry)) { names[entry.filename().string()] = target.filename().string(); }
  }
  for (const auto* library : driver_libraries) {
    const auto file = fmt::format("{}.so.{}", library, from.version);
    if (!fs::exists(from.path / file)) { continue; }
    driver.files.push_back({from.path / file, guest_libraries + file});
    driver.symlinks[fmt::format("{}{}.so.1", guest_libraries, library)] = file;
    for (const auto& [name, target] : names) {
      if (target == file) { driver.symlinks[guest_libraries + name] = file; }
    }
  }
}

void add_tools(const fs::path& root, GuestDriver& driver) {
  for (const auto& [path, package] : tools) {
    if (fs::exists(root / path)) {
      driver.files.push_back({root / path, std::string("/") + path});
    } else if (package != nullptr) {
      unusable(fmt::format("/{} is not there, which guests need (install it; {})", path, package));
    }
  }
}

/// GSP's firmware, which the open kernel modules cannot do without.
void add_firmware(const fs::path& root, GuestDriver& driver) {
  // On most systems the two are one folder.
  for (const auto* folder : {"usr/lib/firmware/nvidia", "lib/firmware/nvidia"}) {
    const auto files = entries_of(root / folder / driver.version);
    for (const auto& file : files) {
      driver.files.push_back(
          {file, fmt::format("/usr/lib/firmware/nvidia/{}/{}", driver.version, file.filename().string())});
    }
    if (!files.empty()) { return; }
  }
}

/// Where the modules have other names than those that nvidia-modprobe asks for: on the host Debian's
/// /etc/modprobe.d leads from one to the other, and nothing of the host's /etc travels.
void add_module_aliases(GuestDriver& driver) {
  const auto file = driver.kernel_module.filename().string();
  const auto module = file.substr(0, file.find(".ko"));
  if (module == "nvidia") { return; }
  std::string& aliases = driver.texts["/usr/lib/modprobe.d/virtrain-nvidia.conf"];
  for (const auto* part : {"", "-uvm", "-modeset", "-drm", "-peermem"}) {
    aliases += fmt::format("alias nvidia{} {}{}\n", part, module, part);
  }
}

void see_that_versions_agree(const GuestDriver& driver, const std::string& libraries,
                             const std::optional<std::string>& running) {
  if (libraries != driver.version) {
    unusable(fmt::format("its kernel module is {}, its libraries are {} (install both of one version)",
                         driver.version, libraries));
  }
  if (running && *running != driver.version) {
    unusable(
        fmt::format("{} is loaded on the host and {} is installed, so that bare metal and VM would run "
                    "different drivers (reload the modules, or reboot)",
                    *running, driver.version));
  }
}

std::optional<fs::path> find_library(const std::vector<fs::path>& linked, std::string_view beginning) {
  for (const auto& library : linked) {
    if (library.filename().string().starts_with(beginning)) { return library; }
  }
  return std::nullopt;
}

/// cuBLAS of NVRTC's version: cuDNN's engines open libcublasLt and end the process where it is missing,
/// whether they use it or not; virtrain-probe opens libcublas for gpu_gemm.
void add_cublas(const fs::path& cudnn, const fs::path& nvrtc, std::set<fs::path>& found) {
  const auto version = nvrtc.filename().string().substr(std::string_view("libnvrtc.so.").size());
  // The last is where cuDNN's own RUNPATH leads to in PyPI's packages.
  const std::array folders{cudnn.parent_path(), nvrtc.parent_path(),
                           (cudnn.parent_path() / "../../cublas/lib").lexically_normal()};
  const auto add = [&](const std::string& name) {
    for (const auto& folder : folders) {
      if (fs::exists(folder / name)) { return found.insert(folder / name), true; }
    }
    return false;
  };
  add("libcublas.so." + version);
  if (!add("libcublasLt.so." + version)) {
    throw Error("find the libraries that cuDNN opens", ErrorCode::host_unable,
                fmt::format("libcublasLt.so.{} is in none of {}, {} and {} (install the toolkit's cuBLAS)",
                            version, folders[0].string(), folders[1].string(), folders[2].string()));
  }
}

}  // namespace

std::optional<GuestDriver> find_guest_driver(const fs::path& root, const std::string& kernel_version) {
  const auto libraries = find_libraries(root);
  const auto module = find_module(root / "lib/modules" / kernel_version);
  const auto running = loaded_nvidia_driver(root);
  if (!libraries && !module && !running) { return std::nullopt; }
  if (!module) {
    unusable(
        fmt::format("there is no nvidia.ko for Linux {}, which guests boot (dkms autoinstall -k {}, or "
                    "install the driver for that kernel)",
                    kernel_version, kernel_version));
  }
  if (!libraries) { unusable("there is a kernel module but no libcuda.so (install the driver's libraries)"); }
  GuestDriver driver;
  driver.kernel_module = module->first;
  driver.origin = module->second;
  driver.version = module_version(module->first);
  see_that_versions_agree(driver, libraries->version, running);
  add_libraries(*libraries, driver);
  add_module_aliases(driver);
  add_tools(root, driver);
  add_firmware(root, driver);
  return driver;
}

std::vector<fs::path> opened_at_run_time(const std::vector<fs::path>& linked) {
  std::set<fs::path> found;
  const auto cudnn = find_library(linked, "libcudnn.so.");
  const auto nvrtc = find_library(linked, "libnvrtc.so.");
  const auto add_siblings = [&found](const fs::path& library, auto is_wanted) {
    for (const auto& sibling : entries_of(library.parent_path())) {
      const std::string name = sibling.filename().string();
      const auto end = name.find(".so.");
      // With a version: those without are for linking, and come with headers and static libraries.
      const bool has_version = end != std::string::npos && end + 4 < name.size();
      if (has_version && is_wanted(std::string_view(name).substr(0, end))) { found.insert(sibling); }
    }
  };
  const auto is_part_of_cudnn = [](std::string_view name) {
    Scanner in(name);
    return in.take("libcudnn_") && !in.take_while([](char c) { return is_lower(c) || c == '_'; }).empty() &&
           in.at_end();
  };
  const auto is_nvrtc = [](std::string_view name) {
    return name == "libnvrtc" || name == "libnvrtc-builtins";
  };
  if (cudnn) { add_siblings(*cudnn, is_part_of_cudnn); }
  if (nvrtc) { add_siblings(*nvrtc, is_nvrtc); }
  if (cudnn && nvrtc) { add_cublas(*cudnn, *nvrtc, found); }
  return {found.begin(), found.end()};
}

}  // namespace virtrain::vmctl
