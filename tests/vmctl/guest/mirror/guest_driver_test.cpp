#include "vmctl/guest/mirror/guest_driver.h"

#include <cstdlib>
#include <fstream>
#include <set>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kernel_file = "6.12.0-1-amd64";
constexpr const char* driver_version = "580.95.05";

/// A made-up host: files of the right names and places, and a module that modinfo can read.
class Host {
 public:
  Host() {
    fs::create_directories(root / "usr/lib");
    fs::create_symlink("usr/lib", root / "lib");  // as nearly everywhere
    for (const auto* tool : {"nvidia-smi", "nvidia-modprobe"}) { file(fs::path("usr/bin") / tool); }
  }
  void file(const fs::path& path, const std::string& text = "content") const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  void link(const fs::path& path, const fs::path& target) const {
    fs::create_directories((root / path).parent_path());
    fs::create_symlink(target, root / path);
  }
  void libraries(const fs::path& folder, const std::string& version) const {
    for (const auto* name : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-gpucomp",
                             "libnvidia-nvvm", "libnvidia-cfg", "libGLX_nvidia", "libnvidia-encode"}) {
      file(folder / (std::string(name) + ".so." + version), name);
    }
    link(folder / "libcuda.so.1", "libcuda.so." + version);
    link(folder / "libcuda.so", "libcuda.so.1");
    link(folder / "libnvidia-nvvm.so.4", "libnvidia-nvvm.so." + version);
  }
  /// An object file with the section that modinfo reads; compressed where the name says so.
  void module(const fs::path& path, const std::string& version) const {
    file("modinfo", std::string("version=") + version + '\0' + "license=Dual MIT/GPL" + '\0');
    auto plain = path;
    if (path.extension() == ".xz") { plain.replace_extension(); }
    fs::create_directories((root / path).parent_path());
    run_checked({"objcopy", "-I", "binary", "-O", "elf64-x86-64", "--rename-section", ".data=.modinfo",
                 (root / "modinfo").string(), (root / plain).string()});
    if (plain != path) { run_checked({"xz", (root / plain).string()}); }
  }
  void running(const std::string& version) const {
    file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version +
                                           "  Release Build  (dvs-builder)\nGCC version: gcc 14.2.0\n");
  }
  std::string modules() const { return std::string("lib/modules/") + kernel_file; }
  GuestDriver driver() const {
    const auto found = find_guest_driver(root, kernel_file);
    REQUIRE(found);
    return *found;
  }
  std::string refusal() const {
    try {
      find_guest_driver(root, kernel_file);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::host_unable);
      return error.what();
    }
    FAIL("a driver that cannot work was taken");
    return {};
  }

  const TemporaryFolder temporary;
  const fs::path root = temporary.path;
};

std::vector<std::string> targets(const GuestDriver& driver) {
  std::vector<std::string> found;
  for (const auto& file : driver.files) { found.push_back(file.target); }
  std::sort(found.begin(), found.end());
  return found;
}

bool carries(const GuestDriver& driver, const std::string& target) {
  const auto all = targets(driver);
  return std::find(all.begin(), all.end(), target) != all.end();
}

const std::string lib = "/usr/lib/x86_64-linux-gnu/";

void check_libraries(const GuestDriver& driver) {
  CHECK(driver.version == driver_version);
  for (const auto* name : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-gpucomp"}) {
    CHECK(carries(driver, lib + name + ".so." + driver_version));
  }
  CHECK_FALSE(carries(driver, lib + "libGLX_nvidia.so." + driver_version));
  CHECK(driver.symlinks.at(lib + "libcuda.so.1") == std::string("libcuda.so.") + driver_version);
  CHECK(driver.symlinks.at(lib + "libnvidia-ml.so.1") == std::string("libnvidia-ml.so.") + driver_version);
  CHECK(driver.symlinks.at(lib + "libnvidia-nvvm.so.4") ==
        std::string("libnvidia-nvvm.so.") + driver_version);
}

TEST_CASE("the driver of Debian's packages: its own folder, alternatives, DKMS's nvidia-current.ko") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu/nvidia/current", driver_version);
  host.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu");
  host.module(host.modules() + "/updates/dkms/nvidia-current.ko.xz", driver_version);
  host.file(std::string("lib/firmware/nvidia/") + driver_version + "/gsp_ga10x.bin");
  host.running(driver_version);
  const auto driver = host.driver();
  check_libraries(driver);
  CHECK(driver.origin == "DKMS");
  const auto& aliases = driver.texts.at("/usr/lib/modprobe.d/virtrain-nvidia.conf");
  CHECK_THAT(aliases, virtrain::test::StartsWith(
                          "alias nvidia nvidia-current\nalias nvidia-uvm nvidia-current-uvm\n"));
  CHECK(carries(driver, "/usr/bin/nvidia-smi"));
  CHECK(carries(driver, "/usr/bin/nvidia-modprobe"));
  CHECK(carries(driver, std::string("/usr/lib/firmware/nvidia/") + driver_version + "/gsp_ga10x.bin"));
}

TEST_CASE("the driver of Ubuntu's packages: modules built by the distribution") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu", driver_version);
  host.module(host.modules() + "/kernel/nvidia-580/nvidia.ko", driver_version);
  const auto driver = host.driver();
  check_libraries(driver);
  CHECK(driver.origin == "packages");
  CHECK(driver.texts.empty());  // modules of the names that are asked for
}

TEST_CASE("Debian's driver with open sources: nvidia-current-open.ko") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu/nvidia/current", driver_version);
  host.module(host.modules() + "/updates/dkms/nvidia-current-open.ko", driver_version);
  CHECK_THAT(host.driver().texts.at("/usr/lib/modprobe.d/virtrain-nvidia.conf"),
             virtrain::test::Contains("alias nvidia-uvm nvidia-current-open-uvm\n"));
}

TEST_CASE("the driver of the run file: module among the kernel's own") {
  const Host host;
  host.libraries("usr/lib64", driver_version);
  host.module(host.modules() + "/kernel/drivers/video/nvidia.ko", driver_version);
  const auto driver = host.driver();
  check_libraries(driver);
  CHECK(driver.origin == "run file");
}

TEST_CASE("Debian's driver of an older series: nvidia-tesla-535") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu/nvidia/tesla-535", driver_version);
  for (const auto* part : {"", "-uvm", "-modeset"}) {
    host.module(host.modules() + "/updates/dkms/nvidia-tesla-535" + part + ".ko", driver_version);
  }
  const auto driver = host.driver();
  check_libraries(driver);
  CHECK(driver.kernel_module.filename() == "nvidia-tesla-535.ko");
  CHECK_THAT(driver.texts.at("/usr/lib/modprobe.d/virtrain-nvidia.conf"),
             virtrain::test::Contains("alias nvidia-uvm nvidia-tesla-535-uvm\n"));
}

TEST_CASE("a driver without a tool that guests need is refused with its package") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu", driver_version);
  host.module(host.modules() + "/kernel/nvidia-580/nvidia.ko", driver_version);
  fs::remove(host.root / "usr/bin/nvidia-modprobe");
  CHECK_THAT(host.refusal(), virtrain::test::Contains("/usr/bin/nvidia-modprobe is not there") &&
                                 virtrain::test::Contains("Ubuntu: nvidia-modprobe"));
}

TEST_CASE("no driver is no error") {
  const Host host;
  host.file(host.modules() + "/modules.dep");
  CHECK_FALSE(find_guest_driver(host.root, kernel_file));
}

TEST_CASE("a module for another kernel only, with the words that help") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu", driver_version);
  host.module("lib/modules/6.1.0-9-amd64/updates/dkms/nvidia.ko", driver_version);
  const auto words = host.refusal();
  CHECK(words.find("no nvidia.ko for Linux 6.12.0-1-amd64") != std::string::npos);
  CHECK(words.find("dkms autoinstall -k 6.12.0-1-amd64") != std::string::npos);
}

TEST_CASE("libraries and module of different versions") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu", "570.86.10");
  host.module(host.modules() + "/updates/dkms/nvidia.ko", driver_version);
  CHECK(host.refusal().find("its kernel module is 580.95.05, its libraries are 570.86.10") !=
        std::string::npos);
}

TEST_CASE("an update that has not been loaded yet: bare metal and VM would differ") {
  const Host host;
  host.libraries("usr/lib/x86_64-linux-gnu", driver_version);
  host.module(host.modules() + "/updates/dkms/nvidia.ko", driver_version);
  host.running("570.86.10");
  CHECK(host.refusal().find("570.86.10 is loaded on the host and 580.95.05 is installed") !=
        std::string::npos);
}

TEST_CASE("a module without libraries") {
  const Host host;
  host.module(host.modules() + "/updates/dkms/nvidia.ko", driver_version);
  CHECK(host.refusal().find("no libcuda.so") != std::string::npos);
}

std::set<std::string> names_of(const std::vector<fs::path>& files) {
  std::set<std::string> names;
  for (const auto& file : files) { names.insert(file.filename()); }
  return names;
}

TEST_CASE("cuDNN's parts, NVRTC's built-ins and cuBLAS follow what links cuDNN and NVRTC") {
  const Host host;
  for (const auto* name :
       {"cudnn/lib/libcudnn.so.9", "cudnn/lib/libcudnn_ops.so.9",
        "cudnn/lib/libcudnn_engines_precompiled.so.9", "cuda/libnvrtc.so.13",
        "cuda/libnvrtc-builtins.so.13.0", "cuda/libnvrtc.so", "cuda/libnvrtc_static.a",
        "cudnn/lib/libcudnn_ops_static_v9.a", "cudnn/lib/libcudnn_ops.so", "cuda/libcublas.so.12"}) {
    host.file(name);
  }
  const std::vector<fs::path> linked{host.root / "cudnn/lib/libcudnn.so.9",
                                     host.root / "cuda/libnvrtc.so.13"};

  SECTION("cuBLAS of the toolkit") {
    for (const auto* name : {"libcublas.so.13", "libcublasLt.so.13", "libcublas.so"}) {
      host.file(fs::path("cuda") / name);
    }
    CHECK(names_of(opened_at_run_time(linked)) ==
          std::set<std::string>{"libcudnn_ops.so.9", "libcudnn_engines_precompiled.so.9", "libnvrtc.so.13",
                                "libnvrtc-builtins.so.13.0", "libcublas.so.13", "libcublasLt.so.13"});
  }
  SECTION("cuBLAS of PyPI's packages") {
    host.file("cublas/lib/libcublasLt.so.13");
    CHECK(names_of(opened_at_run_time(linked)).contains("libcublasLt.so.13"));
  }
  SECTION("no cuBLAS of that version") {
    host.file("cuda/libcublasLt.so.12");
    CHECK_THROWS_WITH(
        opened_at_run_time(linked),
        virtrain::test::Contains("libcublasLt.so.13 is in none of " + (host.root / "cudnn/lib").string()));
  }
  CHECK(opened_at_run_time({host.root / "cuda/libcublas.so.12"}).empty());
}

}  // namespace
}  // namespace virtrain::vmctl
