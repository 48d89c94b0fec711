#include "vmctl/guest/mirror/guest_packages.h"

#include <cstdlib>
#include <filesystem>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

TEST_CASE("ldd's output") {
  const auto libraries =
      parse_ldd("prog",
                "\tlinux-vdso.so.1 (0x00007ffd8a1f2000)\n"
                "\tlibdnnl.so.2 => /lib/x86_64-linux-gnu/libdnnl.so.2 (0x00007f2b0a000000)\n"
                "\t/lib64/ld-linux-x86-64.so.2 (0x00007f2b0c9d1000)\n");
  CHECK(libraries ==
        std::vector<std::string>{"/lib/x86_64-linux-gnu/libdnnl.so.2", "/lib64/ld-linux-x86-64.so.2"});
  try {
    parse_ldd("prog", "\tlibnone.so.3 => not found\n");
    FAIL("a missing library was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK(error.message().find("libnone.so.3") != std::string::npos);
  }
}

TEST_CASE("dpkg -S's output, with architectures, diversions and shared folders") {
  const auto owners = parse_dpkg_search(
      "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\n"
      "diversion by dash from: /bin/sh\n"
      "diversion by dash to: /bin/sh.distrib\n"
      "dash: /bin/sh\n"
      "libc6:amd64, libdnnl2: /usr/lib/x86_64-linux-gnu\n");
  CHECK(owners == std::map<std::string, std::string>{{"/lib/x86_64-linux-gnu/libc.so.6", "libc6"},
                                                     {"/bin/sh", "dash"}});
}

TEST_CASE("a shell needs libc") {
  auto needs = find_needs({"/bin/bash"});
  CHECK(needs.packages.contains("libc6"));
  CHECK(needs.unpackaged_files.empty());
  CHECK(find_needs({}).packages.empty());
}

/// What bash needs where the linker is told to look there first.
GuestNeeds needs_of_bash(const fs::path& library_path) {
  ::setenv("LD_LIBRARY_PATH", library_path.c_str(), 1);
  auto needs = find_needs({"/bin/bash"});
  ::unsetenv("LD_LIBRARY_PATH");
  return needs;
}

TEST_CASE("a library that only this host's linker is told of is linked where every linker looks") {
  const TemporaryFolder folder;
  const auto library = (folder.path / "libtinfo.so.6").string();
  const std::map<std::string, std::string> links{{"/usr/lib/x86_64-linux-gnu/libtinfo.so.6", library}};
  fs::copy_file("/lib/x86_64-linux-gnu/libtinfo.so.6", library);
  const auto needs = needs_of_bash(folder.path);
  CHECK(needs.unpackaged_files == std::set<std::string>{library});
  CHECK(needs.symlinks == links);

  // As /usr/local/cuda: the guest has the real folder, and not the link to it.
  const TemporaryFolder other;
  fs::create_directory_symlink(folder.path, other.path / "cuda");
  const auto through_link = needs_of_bash(other.path / "cuda");
  CHECK(through_link.unpackaged_files == std::set<std::string>{library});
  CHECK(through_link.symlinks == links);
}

}  // namespace
}  // namespace virtrain::vmctl
