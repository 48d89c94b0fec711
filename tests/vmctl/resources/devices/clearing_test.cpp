#include "vmctl/resources/devices/clearing.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* disk_address = "0000:00:11.0";
constexpr const char* disk_node = "/dev/nvme77n1";

/// A disk of the kernel's that stands for an NVMe namespace.
class LoopDisk {
 public:
  explicit LoopDisk(const fs::path& file) {
    try {
      name_ = std::string(trim(run_checked({"losetup", "--find", "--show", file.string()}).out));
    } catch (const Error&) { test::skip("there are no loop devices"); }
  }
  LoopDisk(const LoopDisk&) = delete;
  LoopDisk& operator=(const LoopDisk&) = delete;
  ~LoopDisk() { run_command({"losetup", "--detach", name_}); }

  dev_t number() const {
    struct stat status {};
    return ::stat(name_.c_str(), &status) == 0 ? status.st_rdev : 0;
  }

 private:
  std::string name_;
};

/// Runs `work` where /sys has one function of the class on `driver`, whose only namespace is the disk.
template <typename Work>
void beside_a_disk(const LoopDisk& disk, const std::string& class_code, const std::string& driver,
                   Work work) {
  std::thread([&] {
    const auto number = disk.number();
    REQUIRE(::unshare(CLONE_NEWNS) == 0);
    REQUIRE(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    REQUIRE(::mount("none", "/sys", "tmpfs", 0, nullptr) == 0);
    REQUIRE(::mount("none", "/dev", "tmpfs", 0, nullptr) == 0);
    REQUIRE(::mknod(disk_node, S_IFBLK | 0600, number) == 0);
    const auto folder = fs::path("/sys/bus/pci/devices") / disk_address;
    fs::create_directories(folder / "nvme/nvme77/nvme77n1");
    std::ofstream(folder / "class") << class_code << "\n";
    fs::create_symlink("../../drivers/" + driver, folder / "driver");
    work();
  }).join();
}

std::string refusal(const Cancelled& cancelled = {}) {
  try {
    erase_disk(disk_address, cancelled);
  } catch (const Error& error) { return error.what(); }
  return "(erased)";
}

TEST_CASE("a disk is erased to its last byte, unless somebody uses it or another driver has it") {
  test::need_root();
  const TemporaryFolder folder;
  const auto file = folder.path / "disk";
  const std::string secret(std::size_t{3} << 20, 'x');
  std::ofstream(file) << secret;
  const LoopDisk disk(file);
  const auto content = [&] { return read_file(file).value_or(""); };

  beside_a_disk(disk, "0x010802", "vfio-pci",
                [] { CHECK_THAT(refusal(), test::Contains("it is on vfio-pci")); });
  beside_a_disk(disk, "0x030200", "nvme",
                [] { CHECK_THAT(refusal(), test::Contains("only whole NVMe disks")); });
  beside_a_disk(disk, "0x010802", "nvme", [&] {
    const UniqueFd user(::open(disk_node, O_RDONLY | O_CLOEXEC));
    REQUIRE(user);
    CHECK_THAT(refusal(), test::Contains("has /dev/nvme77n1 open"));
    CHECK(content() == secret);
  });
  CHECK(content() == secret);
  beside_a_disk(disk, "0x010802", "nvme", [&] {
    CHECK_THAT(refusal([] { return true; }), test::Contains("stopped on request"));
    CHECK(refusal() == "(erased)");  // and nothing of the one that was stopped holds the disk
    const auto left = content();
    CHECK(left.size() == secret.size());
    CHECK(std::all_of(left.begin(), left.end(), [](char c) { return c == '\0'; }));
  });
}

}  // namespace
}  // namespace virtrain::vmctl
