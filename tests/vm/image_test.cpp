// Mirror images from this host's packages: needs supermin and a kernel; the canary also root and dpkg.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"
#include "vmctl/guest/mirror/guest_image.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// A cache of the test's own, where every user may look.
struct Cache {
  fs::path folder = "/var/tmp/virtrain-imagetest-" + std::to_string(::getpid());
  Cache() { fs::create_directories(folder); }
  ~Cache() { fs::remove_all(folder); }
};

MirrorSpec spec(const Cache& cache, std::vector<std::string> packages = {}) {
  return {{{VIRTRAIN_BINARY_DIR "/virtrain-stub-agent", "/usr/bin/virtrain-agent"}},
          std::move(packages),
          cache.folder};
}

/// Whether the text occurs in the raw bytes of a file; holes of a sparse file are passed over.
bool contains(const fs::path& file, const std::string& text) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  std::string window;
  std::vector<char> chunk(1U << 20);
  for (off_t at = 0; (at = ::lseek(fd.get(), at, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(fd.get(), at, SEEK_HOLE);
    for (window.clear(); at < end;) {
      const auto got = ::pread(fd.get(), chunk.data(), std::min<std::size_t>(chunk.size(), end - at), at);
      REQUIRE(got > 0);
      window.append(chunk.data(), static_cast<std::size_t>(got));
      if (window.find(text) != std::string::npos) { return true; }
      window.erase(0, window.size() - std::min(window.size(), text.size()));  // it may lie across two chunks
      at += got;
    }
  }
  return false;
}

std::string in_image(const GuestImage& image, const std::string& command) {
  return run_checked({"debugfs", "-R", command, image.root.string()}).out;
}

/// A package with secrets in every kind of file, all edited after the installation as an administrator would.
class Canary {
 public:
  Canary() {
    const fs::path stage = "/var/tmp/virtrain-canary-" + std::to_string(::getpid());
    const std::string script = R"(set -e
      mkdir -p $D/DEBIAN $D/etc/virtraincanary $D/usr/share/virtraincanary
      printf 'Package: virtraincanary\nVersion: 1\nArchitecture: all\nMaintainer: test <t@example.org>\nDescription: test\n' > $D/DEBIAN/control
      printf '/etc/virtraincanary/open\n/etc/virtraincanary/closed\n' > $D/DEBIAN/conffiles
      for f in etc/virtraincanary/open etc/virtraincanary/closed usr/share/virtraincanary/data; do echo original > $D/$f; done
      chmod -R go+rX $D; chmod 600 $D/etc/virtraincanary/closed $D/usr/share/virtraincanary/data
      dpkg-deb --root-owner-group -b $D $D.deb >/dev/null
      dpkg -i $D.deb >/dev/null
      for f in etc/virtraincanary/open etc/virtraincanary/closed usr/share/virtraincanary/data; do echo "$S" > /$f; done
      echo "$S" > /etc/virtraincanary/unowned
      rm -rf $D $D.deb)";
    CommandOptions options;
    options.environment = {"D=" + stage.string(), "S=" + secret};
    run_checked({"sh", "-c", script}, options);
  }
  ~Canary() {
    run_command({"dpkg", "--purge", "virtraincanary"});
    std::error_code ignored;
    fs::remove_all("/etc/virtraincanary", ignored);
  }
  const std::string secret = "canary-" + std::to_string(::getpid()) + "-sings";
};

TEST_CASE("no secret of the host gets into the image, and nothing under /etc that is not ours") {
  test::need_root();
  const Canary canary;
  const Cache cache;
  const auto image = build_mirror_image(spec(cache, {"virtraincanary"}));
  CHECK_FALSE(contains(image.root, canary.secret));
  CHECK_FALSE(contains(image.initrd, canary.secret));
  // the package is in it, and the search finds what is there
  CHECK(contains(image.root, "nobody:x:65534:65534:nobody:/nonexistent"));
  CHECK(std::find(image.packages.begin(), image.packages.end(), "virtraincanary_1_all") !=
        image.packages.end());
  CHECK(in_image(image, "cat /etc/hosts") == "127.0.0.1 localhost\n");
  CHECK(in_image(image, "cat /etc/passwd").find("root:x:0:0:root:/root:/bin/bash\nnobody") == 0);
}

TEST_CASE("an image is made once, readable by all, and named by its content") {
  const Cache cache;
  std::vector<std::string> said;
  CHECK_FALSE(has_mirror_image(spec(cache)));
  CHECK_FALSE(fs::exists(cache.folder / "images"));
  const auto made = build_mirror_image(spec(cache), [&](std::string_view what) { said.emplace_back(what); });
  CHECK(has_mirror_image(spec(cache)));
  CHECK_FALSE(made.from_cache);
  CHECK_FALSE(said.empty());
  said.clear();
  const auto again = build_mirror_image(spec(cache), [&](std::string_view what) { said.emplace_back(what); });
  CHECK(again.from_cache);
  CHECK(said.empty());
  CHECK(again.hash == made.hash);
  for (const auto& file : {made.kernel, made.initrd, made.root}) {
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0644);
    CHECK(status.st_uid == ::geteuid());
  }
  for (const auto* package : {"openmpi-bin_", "libopenmpi", "libstdc++6_", "coreutils_"}) {
    INFO(package);
    CHECK(std::any_of(made.packages.begin(), made.packages.end(),
                      [&](const auto& name) { return name.starts_with(package); }));
  }

  // A copied agent has another inode and time but the same content: found, not built.
  const auto copy = cache.folder / "agent-copy";
  fs::copy_file(VIRTRAIN_BINARY_DIR "/virtrain-stub-agent", copy);
  auto moved = spec(cache);
  moved.files[0].source = copy;
  CHECK(build_mirror_image(moved).from_cache);
  // Another content is another image.
  std::ofstream(copy, std::ios::app) << "changed";
  CHECK_FALSE(has_mirror_image(moved));
  const auto changed = build_mirror_image(moved);
  CHECK_FALSE(changed.from_cache);
  CHECK(changed.hash != made.hash);
  CHECK(in_image(changed, "stat /usr/bin/virtrain-agent").find("Mode:  0755") != std::string::npos);
  // No work folder is left.
  for (const auto& entry : fs::directory_iterator(cache.folder / "images")) {
    CHECK_FALSE(entry.path().filename().string().starts_with(".build-"));
  }
  fs::remove_all(made.root.parent_path());
  CHECK_FALSE(has_mirror_image(spec(cache)));
  CHECK(has_mirror_image(moved));
}

/// A process of another user who tries to plant a file wherever an image is built; whether it ever could.
class Planter {
 public:
  explicit Planter(const fs::path& images) : child_(::fork()) {
    if (child_ != 0) { return; }
    const uid_t user = test::stranger;
    if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0) { ::_exit(2); }
    while (true) {
      std::error_code ignored;
      for (fs::recursive_directory_iterator
               at(images, fs::directory_options::skip_permission_denied, ignored),
           end;
           at != end; at.increment(ignored)) {
        if (at->is_directory(ignored) && ::symlink("/etc/shadow", (at->path() / "planted").c_str()) == 0) {
          ::_exit(1);
        }
      }
      ::usleep(2000);
    }
  }
  bool has_planted() const {
    int status = 0;
    if (::waitpid(child_, &status, WNOHANG) == child_) { return true; }
    ::kill(child_, SIGKILL);
    ::waitpid(child_, &status, 0);
    return false;
  }

 private:
  pid_t child_;
};

TEST_CASE("row 2: no other user gets at an image while it is built, nor at its locks") {
  if (::geteuid() != 0) { test::skip("needs root"); }
  const Cache cache;
  fs::create_directories(cache.folder / "images");
  const Planter nobody(cache.folder);
  const mode_t before = ::umask(077);
  const auto image = build_mirror_image(spec(cache));
  ::umask(before);
  CHECK_FALSE(nobody.has_planted());
  for (const auto& file : {image.kernel, image.initrd, image.root}) {
    struct stat status {};
    REQUIRE(::lstat(file.c_str(), &status) == 0);
    CHECK(status.st_mode == (S_IFREG | 0644));
    CHECK(status.st_uid == 0);
  }
  // QEMU's user reads the files. Row 11: whoever may read them may lock them too, and holds nobody up.
  CHECK(test::as_stranger([&] {
    const int file = ::open(image.kernel.c_str(), O_RDONLY);
    return file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0;
  }));
  CHECK_FALSE(test::as_stranger(
      [&] { return ::open((cache.folder / "images/locks/build").c_str(), O_RDONLY) >= 0; }));
  CHECK(build_mirror_image(spec(cache)).from_cache);
}

TEST_CASE("an image is made anew when a library that no package owns has changed") {
  const Cache cache;
  const auto library = cache.folder / "own/libtinfo.so.6";
  fs::create_directories(library.parent_path());
  fs::copy_file("/lib/x86_64-linux-gnu/libtinfo.so.6", library);
  auto with_bash = spec(cache);
  with_bash.files.push_back({"/bin/bash", "/usr/bin/own-bash"});
  ::setenv("LD_LIBRARY_PATH", library.parent_path().c_str(), 1);
  const auto made = build_mirror_image(with_bash);
  CHECK(build_mirror_image(with_bash).from_cache);
  std::ofstream(library, std::ios::app) << "an update";
  const auto updated = build_mirror_image(with_bash);
  CHECK_FALSE(updated.from_cache);
  CHECK(updated.hash != made.hash);
  fs::last_write_time(library, fs::file_time_type::clock::now());  // the same content: made anew once
  CHECK(build_mirror_image(with_bash).hash == updated.hash);
  CHECK(build_mirror_image(with_bash).from_cache);
  ::unsetenv("LD_LIBRARY_PATH");
}

TEST_CASE("an image that somebody uses stays in the cache, however old it is") {
  const Cache cache;
  const auto images = cache.folder / "images";
  const auto now = fs::file_time_type::clock::now();
  const auto old = now - std::chrono::hours(2), newer = now + std::chrono::hours(1);
  const auto plant = [&](const std::string& name, fs::file_time_type used) {
    fs::create_directories(images / name);
    for (const auto* file : {"kernel", "manifest.json"}) { std::ofstream(images / name / file) << "{}"; }
    fs::last_write_time(images / name, used);
  };
  for (const auto* name : {"newer-1", "newer-2", "newer-3"}) { plant(name, newer); }
  std::optional<GuestImage> used = build_mirror_image(spec(cache));
  const auto folder = used->root.parent_path();
  fs::last_write_time(folder, old);

  const auto copy = cache.folder / "agent-copy";
  fs::copy_file(VIRTRAIN_BINARY_DIR "/virtrain-stub-agent", copy);
  auto another = spec(cache);
  another.files[0].source = copy;
  const auto build_another = [&] {
    std::ofstream(copy, std::ios::app) << "changed";
    CHECK_FALSE(build_mirror_image(another).from_cache);
  };
  plant("unused", old);
  build_another();
  CHECK_FALSE(fs::exists(images / "unused"));
  CHECK(fs::exists(folder / "root"));
  used.reset();
  build_another();
  CHECK_FALSE(fs::exists(folder));
  CHECK(fs::exists(images / "newer-1"));
}

TEST_CASE("what is missing is said before anything is built") {
  const Cache cache;
  try {
    build_mirror_image(spec(cache, {"no-such-package-here"}));
    FAIL("built with a package that is not installed");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK(error.message().find("apt-get install no-such-package-here") != std::string::npos);
  }
  CHECK_THROWS_AS(build_mirror_image({{}, {}, cache.folder}), Error);
}

}  // namespace
}  // namespace virtrain::vmctl
