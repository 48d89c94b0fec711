#include "common/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace std::chrono_literals;

namespace {

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("row 11: a lock that somebody holds is waited for until the deadline, and then named") {
  const TemporaryFolder folder;
  const auto file = folder.path / "lock";
  const auto held = lock_file(file, LockKind::shared, 0ms);
  CHECK(lock_file(file, LockKind::shared, 0ms));
  CHECK_FALSE(try_lock_file(file, LockKind::exclusive));
  const auto began = std::chrono::steady_clock::now();
  try {
    lock_file(file, LockKind::exclusive, 60ms);
    FAIL("locked twice");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::busy);
    CHECK(error.operation() == "lock " + file.string());
  }
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}

TEST_CASE("row 11: no other user can open a lock, also one of an older version") {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path, std::filesystem::perms(0755));
  const auto file = folder.path / "lock";
  std::ofstream(file) << "";
  ::chmod(file.c_str(), 0666);
  CHECK_FALSE(is_locked(file));
  CHECK(mode_of(file) == 0666);
  {
    const auto held = try_lock_file(file, LockKind::exclusive);
    CHECK(is_locked(file));
  }
  CHECK(mode_of(file) == 0600);
  const auto fresh = folder.path / "fresh";
  const mode_t before = ::umask(0);
  CHECK(try_lock_file(fresh, LockKind::exclusive));
  ::umask(before);
  CHECK(mode_of(fresh) == 0600);
  if (::geteuid() == 0) {
    CHECK_FALSE(test::as_stranger([&] { return ::open(file.c_str(), O_RDONLY) >= 0; }));
  }
  std::filesystem::create_symlink(file, folder.path / "link");
  CHECK_THROWS_AS(try_lock_file(folder.path / "link", LockKind::exclusive), Error);
  CHECK_FALSE(is_locked(folder.path / "link"));
  CHECK_FALSE(is_locked(folder.path / "absent"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "absent"));
}
