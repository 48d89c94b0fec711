#include "vmctl/host/device_watch.h"

#include <unistd.h>

#include <fstream>

#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// The study's machine, to spoil.
class Root {
 public:
  Root() : path(fs::temp_directory_path() / ("virtrain-evidence-" + std::to_string(::getpid()))) {
    fs::remove_all(path);
    fs::copy(fs::path(VIRTRAIN_SOURCE_DIR) / "tests/data/r750xa", path,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  ~Root() { fs::remove_all(path); }
  void write(const fs::path& file, const std::string& text) const { std::ofstream(path / file) << text; }

  fs::path path;
};

const std::vector<std::string> one_gpu{"0000:17:00.0"};

const fs::path gpu_folder = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0";

TEST_CASE("link errors of a trial's devices are counted from the watch's making on") {
  const Root root;
  root.write(gpu_folder / "aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 3\n");
  root.write(gpu_folder / "aer_dev_fatal", "TOTAL_ERR_FATAL 0\n");
  const DeviceWatch watch(one_gpu, root.path);
  root.write(gpu_folder / "aer_dev_fatal", "TOTAL_ERR_FATAL 1\n");
  const auto evidence = watch.finish();
  CHECK(evidence.link_errors_before.at("0000:17:00.0") == LinkErrors{3, 0, 0});
  CHECK(evidence.link_errors_after.at("0000:17:00.0") == LinkErrors{3, 0, 1});
  CHECK(evidence.acs_gaps.empty());
  CHECK_FALSE(evidence.unsafe_interrupts);
}

TEST_CASE("the link of a GPU counts as it was at its best") {
  const Root root;
  DeviceWatch watch(one_gpu, root.path);
  CHECK(watch.finish().links.empty());
  watch.look();  // idle: 2.5 GT/s
  root.write(gpu_folder / "current_link_speed", "8.0 GT/s PCIe\n");
  watch.look();
  root.write(gpu_folder / "current_link_speed", "2.5 GT/s PCIe\n");
  watch.look();
  const auto link = watch.finish().links.at("0000:17:00.0");
  CHECK(link.gigatransfers == 8);
  CHECK(link.lanes == 16);
  CHECK(link.possible_gigatransfers == 16);
  CHECK(link.possible_lanes == 16);
}

TEST_CASE("a GPU in a slot that is slower than it is judged by the slot") {
  const Root root;
  const auto port = gpu_folder.parent_path();
  root.write(port / "max_link_speed", "8.0 GT/s PCIe\n");
  root.write(port / "max_link_width", "8\n");
  DeviceWatch watch(one_gpu, root.path);
  root.write(gpu_folder / "current_link_speed", "8.0 GT/s PCIe\n");
  watch.look();
  const auto link = watch.finish().links.at("0000:17:00.0");
  CHECK(link.possible_gigatransfers == 8);
  CHECK(link.possible_lanes == 8);
}

TEST_CASE("what keeps tenants apart is looked at on the way to the devices") {
  const Root root;
  std::string config(4096, '\0');
  config[0x100] = 0x0d;  // ACS, nothing of it switched on
  root.write("sys/devices/pci0000:16/0000:16:02.0/config", config);
  fs::create_directories(root.path / "sys/module/vfio_iommu_type1/parameters");
  root.write("sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", "Y\n");
  const auto evidence = DeviceWatch(one_gpu, root.path).finish();
  CHECK(evidence.acs_gaps == std::vector<std::string>{"0000:16:02.0 without RR CR UF"});
  CHECK(evidence.unsafe_interrupts);
}

TEST_CASE("a trial without devices leaves no evidence of any") {
  CHECK(DeviceWatch({}, "/nowhere").finish().link_errors_before.empty());
}

TEST_CASE("cores by NUMA node") {
  const Root root;
  for (const auto* folder : {"sys/devices/system/cpu/cpu0/node0", "sys/devices/system/cpu/cpu2/node1"}) {
    fs::create_directories(root.path / folder);
  }
  CHECK(numa_nodes_of(root.path, {0, 2}) == std::vector<int>{0, 1});
}

}  // namespace
}  // namespace virtrain::vmctl
