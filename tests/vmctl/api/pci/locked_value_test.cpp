#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/pci.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

TEST_CASE("sysfs is read by a process of its own and says the same") {
  const fs::path file = "/sys/devices/system/cpu/possible";
  REQUIRE(read_value(file));
  CHECK(read_locked_value(file) == read_value(file));
  CHECK_FALSE(read_locked_value("/sys/devices/system/cpu/no-such-file"));
}

TEST_CASE("a file of a recorded tree and one that never answers") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "recorded") << "vfio-pci\n";
  CHECK(read_locked_value(folder.path / "recorded") == "vfio-pci");

  // A pipe that nobody writes to is to its reader what a lock is that nobody gives back.
  const auto pipe = folder.path / "driver_override";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  try {
    read_locked_value(pipe, std::chrono::milliseconds(200));
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(std::string(error.what()).find("read " + pipe.string()) != std::string::npos);
  }
}

}  // namespace
}  // namespace virtrain::vmctl
