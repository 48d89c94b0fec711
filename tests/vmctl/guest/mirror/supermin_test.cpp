#include "vmctl/guest/mirror/supermin.h"

#include <unistd.h>

#include <fstream>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

struct FakeBoot {
  TemporaryFolder folder;
  fs::path root = folder.path;
  FakeBoot() { fs::create_directories(root / "boot"); }
  void add(const std::string& version, bool modules) const {
    std::ofstream(root / "boot" / ("vmlinuz-" + version)) << "kernel";
    if (!modules) { return; }
    fs::create_directories(root / "lib/modules" / version);
    std::ofstream(root / "lib/modules" / version / "modules.dep") << "";
  }
};

TEST_CASE("the guest boots the newest kernel that has its modules") {
  const FakeBoot host;
  host.add("6.1.0-9-amd64", true);
  host.add("6.1.0-10-amd64", true);
  host.add("6.12.0-1-amd64", false);
  const auto kernel = find_guest_kernel(host.root);
  CHECK(kernel.version == "6.1.0-10-amd64");
  CHECK(kernel.file == host.root / "boot/vmlinuz-6.1.0-10-amd64");
  CHECK(kernel.modules == host.root / "lib/modules/6.1.0-10-amd64");
}

TEST_CASE("a build that fails on a full disk says where to free space") {
  const Error failure("copy /bin/x for the guest", ErrorCode::io, "Input/output error");
  CHECK(std::string(explain_full_disk(failure, "/cache/images", 4096).what()) ==
        "copy /bin/x for the guest: Input/output error (/cache/images has 4KiB left: free space there, or "
        "choose another folder with VIRTRAIN_CACHE_DIR)");
  CHECK(std::string(explain_full_disk(failure, "/cache/images", std::uintmax_t{1} << 30).what()) ==
        failure.what());
  const Error cancelled("build the guest image", ErrorCode::interrupted, "cancelled");
  CHECK(std::string(explain_full_disk(cancelled, "/cache/images", 0).what()) == cancelled.what());
}

TEST_CASE("a compressed overlay module is unpacked for init, a plain one is left where it is") {
  const FakeBoot host;
  host.add("6.8.0-1-generic", true);
  const auto kernel = find_guest_kernel(host.root);
  CHECK(unpacked_overlay_module(kernel).empty());
  const auto module = (kernel.modules / "kernel/fs/overlayfs/overlay.ko").string();
  for (const auto* tool : {"xz", "zstd", "gzip"}) {
    CAPTURE(tool);
    fs::create_directories(fs::path(module).parent_path());
    std::ofstream(module) << "a module";
    CHECK(unpacked_overlay_module(kernel).empty());
    run_checked({tool, "-q", module});
    CHECK(unpacked_overlay_module(kernel) == "a module");
    fs::remove_all(fs::path(module).parent_path());
  }
}

TEST_CASE("without a kernel the error names the package to install") {
  const FakeBoot host;
  try {
    find_guest_kernel(host.root);
    FAIL("found a kernel where there is none");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK(error.message().find("apt-get install linux-image-cloud-amd64") != std::string::npos);
  }
}

}  // namespace
}  // namespace virtrain::vmctl
