#include "vmctl/devices/device_checks.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path kHosts = fs::path(VIRTRAIN_BINARY_DIR) / "hosts";
constexpr const char* kGpu = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0";
constexpr const char* kOther = "sys/devices/pci0000:b0/0000:b0:02.0/0000:b1:00.0";

/// A copy of the study's machine to spoil.
class Tree {
 public:
  Tree() : root(fs::temp_directory_path() / ("virtrain-checks-" + std::to_string(::getpid()))) {
    fs::remove_all(root);
    fs::copy(kHosts / "r750xa", root, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  ~Tree() { fs::remove_all(root); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    fs::remove(root / file);
    std::ofstream(root / file) << text << "\n";
  }
  void link(const fs::path& file, const std::string& target) const {
    fs::create_directories((root / file).parent_path());
    fs::remove(root / file);
    fs::create_symlink(target, root / file);
  }
  Finding examine(const std::string& id, const std::vector<std::string>& leased = {}) const {
    DeviceHost host{root, load_inventory(root), leased};
    find_users(root, host.inventory.devices);
    for (const auto& check : device_checks())
      if (id == check.id) return vmctl::examine(check, host);
    FAIL("no check " << id);
    return {};
  }

  fs::path root;
};

/// One tree that passes and one that fails, and a word of what is found then.
struct Example {
  std::function<void(const Tree&)> pass;
  std::function<void(const Tree&)> fail;
  std::string words;
};

const std::function<void(const Tree&)> kAsItIs = [](const Tree&) {};

/// The card's audio function, in the card's own group.
void add_audio_function(const Tree& tree, const std::string& driver) {
  const fs::path audio = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.1";
  tree.write(audio / "class", "0x040300");
  tree.link(audio / "driver", "../../../../bus/pci/drivers/" + driver);
  tree.link("sys/bus/pci/devices/0000:17:00.1", "../../../devices/pci0000:16/0000:16:02.0/0000:17:00.1");
  tree.link("sys/kernel/iommu_groups/21/devices/0000:17:00.1", "x");
  tree.link(fs::path(kGpu) / "driver", "../../../../bus/pci/drivers/vfio-pci");
}

const std::map<std::string, Example>& examples() {
  constexpr const char* kUnsafe = "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";
  constexpr const char* kGovernor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
  const auto writes = [](const fs::path& file, const std::string& text) {
    return [=](const Tree& tree) { tree.write(file, text); };
  };
  static const std::map<std::string, Example> all = {
      {"IOM-1",
       {kAsItIs,
        [](const Tree& tree) {
          fs::remove_all(tree.root / "sys/kernel/iommu_groups");
          fs::create_directories(tree.root / "sys/kernel/iommu_groups");
        },
        "no IOMMU groups"}},
      {"IOM-2",
       {[](const Tree& tree) { add_audio_function(tree, "vfio-pci"); },
        [](const Tree& tree) { tree.link("sys/kernel/iommu_groups/21/devices/0000:00:1f.0", "x"); },
        "0000:17:00.0 shares its IOMMU group with 0000:00:1f.0"}},
      {"IOM-3", {writes(kUnsafe, "N"), writes(kUnsafe, "Y"), "any interrupt"}},
      {"IOM-4", {writes("proc/cmdline", "quiet iommu=pt"), kAsItIs, "no iommu=pt"}},
      {"DRV-1",
       {[](const Tree& tree) { add_audio_function(tree, "vfio-pci"); },
        [](const Tree& tree) { add_audio_function(tree, "snd_hda_intel"); },
        "0000:17:00.1 on snd_hda_intel"}},
      {"DRV-2",
       {kAsItIs, writes(fs::path(kGpu) / "driver_override", "vfio-pci"), "driver_override vfio-pci"}},
      {"DRV-4",
       {kAsItIs,
        [](const Tree& tree) { tree.link(fs::path(kGpu) / "driver", "../../../../bus/pci/drivers/nouveau"); },
        "on nouveau"}},
      {"USE-1",
       {kAsItIs,
        [](const Tree& tree) {
          tree.write("proc/77/comm", "dcgm-exporter");
          tree.link("proc/77/fd/9", "/dev/nvidia2");
        },
        "0000:b1:00.0 is open in dcgm-exporter (pid 77)"}},
      {"RST-1", {kAsItIs, writes(fs::path(kGpu) / "reset_method", "pm"), "resets by pm only"}},
      {"RST-2", {kAsItIs, writes(fs::path(kGpu) / "power_state", "D3cold"), "D3cold"}},
      {"LNK-1", {kAsItIs, writes(fs::path(kOther) / "current_link_width", "8"), "runs 8 lanes of 16"}},
      {"NUM-0", {kAsItIs, writes(fs::path(kOther) / "numa_node", "-1"), "0000:b1:00.0 is on no NUMA node"}},
      {"VER-3",
       {writes("proc/sys/kernel/osrelease", "6.12.0-amd64"),
        writes("proc/sys/kernel/osrelease", "6.8.0-60-generic"), "page by page"}},
      {"MEM-4", {writes("sys/kernel/mm/ksm/run", "0"), writes("sys/kernel/mm/ksm/run", "1"), "KSM merges"}},
      {"CPU-1", {writes(kGovernor, "performance"), writes(kGovernor, "schedutil"), "governor schedutil"}},
  };
  return all;
}

TEST_CASE(
    "every check of devices: a tree that passes, a tree that fails, with what is wrong and what to do") {
  CHECK(examples().size() == device_checks().size());
  for (const auto& check : device_checks()) {
    INFO(check.id);
    REQUIRE(examples().contains(check.id));
    const auto& [pass, fail, words] = examples().at(check.id);
    {
      const Tree tree;
      pass(tree);
      const auto finding = tree.examine(check.id);
      CHECK(finding.status == CheckStatus::ok);
      CHECK(finding.fix.empty());
      CHECK_FALSE(finding.found.empty());
    }
    const Tree tree;
    fail(tree);
    const auto finding = tree.examine(check.id);
    CHECK(finding.status == CheckStatus::failed);
    CHECK_THAT(finding.found, Catch::Contains(words));
    CHECK_FALSE(finding.fix.empty());
  }
}

TEST_CASE("checks that do not apply say when they would") {
  const DeviceHost laptop{kHosts / "laptop", load_inventory(kHosts / "laptop")};
  for (const auto& check : device_checks()) {
    INFO(check.id);
    if (std::string(check.applies_when) == "always") continue;
    const auto finding = examine(check, laptop);
    CHECK(finding.status == CheckStatus::skipped);
    CHECK(finding.found == std::string("applies when ") + check.applies_when);
  }
}

TEST_CASE("an override of a device that a live run holds is no leak") {
  const Tree tree;
  tree.write(fs::path(kGpu) / "driver_override", "vfio-pci");
  CHECK(tree.examine("DRV-2", {"0000:17:00.0"}).status == CheckStatus::ok);
}

}  // namespace
}  // namespace virtrain::vmctl
