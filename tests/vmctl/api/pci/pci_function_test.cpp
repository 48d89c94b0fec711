#include <sys/stat.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/pci.h"

using namespace virtrain;
using namespace virtrain::vmctl;

TEST_CASE("bridges behind Intel VMD, whose domain has five digits, are above their devices") {
  namespace fs = std::filesystem;
  const TemporaryFolder root;
  const std::string device = "pci0000:e0/0000:e0:00.5/pci10000:e0/10000:e0:02.0/10000:e1:00.0";
  fs::create_directories(root.path / "sys/devices" / device);
  fs::create_directories(root.path / "sys/bus/pci/devices");
  fs::create_symlink("../../../devices/" + device, root.path / "sys/bus/pci/devices/10000:e1:00.0");
  const auto function = read_pci_function(root.path, "10000:e1:00.0");
  REQUIRE(function);
  CHECK(function->root_complex == "pci10000:e0");
  CHECK(function->bridges == std::vector<std::string>{"10000:e0:02.0"});
}

TEST_CASE("a recorded host whose pci.ids is a pipe keeps nobody waiting") {
  namespace fs = std::filesystem;
  const TemporaryFolder root;
  fs::create_directories(root.path / "usr/share/misc");
  REQUIRE(::mkfifo((root.path / "usr/share/misc/pci.ids").c_str(), 0600) == 0);
  const auto here = pci_name("/", "0x10de", "0x20f1");
  CHECK(pci_name(root.path, "0x10de", "0x20f1") == here);
}
