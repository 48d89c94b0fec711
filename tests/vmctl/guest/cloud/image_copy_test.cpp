#include "vmctl/guest/cloud/image_copy.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// What a cache holds beside its locks.
std::vector<std::string> cached(const fs::path& cache) {
  auto names = entry_names(cache / "images");
  std::erase(names, "locks");
  return names;
}

}  // namespace

TEST_CASE("an image is copied under its digest, and its name may lead elsewhere afterwards") {
  const TemporaryFolder folder;
  const auto image = folder.path / "disk.qcow2", cache = folder.path / "cache";
  const auto content =
      std::string("QFI\xfb") + std::string(100'000, 'x') + std::string(5'000'000, '\0') + "end";
  fs::create_directory(cache);
  std::ofstream(image) << content;
  const auto copy = copy_image(image, cache, {});
  CHECK(copy.file == cache / "images" / sha256(content).substr(0, 32) / "disk");
  std::ofstream(image) << "something else";
  CHECK(read_file(copy.file) == content);
  struct stat status {};
  REQUIRE(::stat(copy.file.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0400);  // it may be a user's own
  if (const auto* qemu = ::getpwnam("libvirt-qemu"); qemu != nullptr && ::geteuid() == 0) {
    CHECK(status.st_uid == qemu->pw_uid);
  }
  CHECK(status.st_blocks * 512 < 2'000'000);  // holes stay holes
  CHECK(copy_image(image, cache, {}).file != copy.file);
  CHECK(cached(cache).size() == 2);
}

TEST_CASE("an image that cannot be copied leaves nothing in the cache") {
  const TemporaryFolder folder;
  const auto image = folder.path / "disk.raw", cache = folder.path / "cache";
  fs::create_directory(cache);
  std::ofstream(image) << std::string(100'000, 'x');
  const auto code = [&](const fs::path& path, const Cancelled& cancelled) -> std::string {
    try {
      copy_image(path, cache, cancelled);
    } catch (const Error& error) { return to_string(error.code()); }
    return "none";
  };
  CHECK(code(image, [] { return true; }) == "interrupted");
  CHECK(code(folder.path / "absent", {}) == "host_unable");
  CHECK(code(folder.path, {}) == "host_unable");
  CHECK(cached(cache).empty());
}

}  // namespace virtrain::vmctl
