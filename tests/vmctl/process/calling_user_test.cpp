#include "vmctl/process/calling_user.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <future>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

constexpr uid_t somebody = 61183;  // no account
const Identity root{0, 0}, stranger{somebody, somebody};

bool may_read(const std::filesystem::path& file) {
  return static_cast<bool>(UniqueFd(::open(file.c_str(), O_RDONLY | O_CLOEXEC)));
}

}  // namespace

TEST_CASE("a host process works for who made its socket, or else for who called sudo") {
  CHECK(calling_user_of(std::nullopt, std::nullopt).user == 0);
  CHECK(calling_user_of(std::nullopt, root).user == 0);
  CHECK(calling_user_of(std::nullopt, stranger).user == somebody);
  CHECK(calling_user_of("61000", std::nullopt).user == 61000);
  CHECK(calling_user_of("61000", root).user == 61000);
  // Who holds the socket says less of himself than the variable could.
  CHECK(calling_user_of("0", stranger).user == somebody);
  CHECK(calling_user_of("61000", stranger).user == somebody);
}

TEST_CASE("a SUDO_UID that is no number of a user is refused") {
  for (const char* text : {"", "-1", "4294967295", "4294967296", "root", "1 ", "0x10", "1\n2"}) {
    CHECK_THROWS_AS(calling_user_of(text, std::nullopt), Error);
  }
}

TEST_CASE("as another user a thread reaches what that user may, and other threads all") {
  test::need_root();
  const TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0755);
  const auto secret = folder.path / "secret", open = folder.path / "open";
  std::ofstream(secret) << "s";
  std::ofstream(open) << "o";
  ::chmod(secret.c_str(), 0600);
  ::chmod(open.c_str(), 0644);
  const auto theirs = folder.path / "theirs";
  ::mkdir(theirs.c_str(), 0700);
  REQUIRE(::chown(theirs.c_str(), somebody, somebody) == 0);
  std::promise<void> go;
  auto seen = std::async(std::launch::async, [&] { return go.get_future().wait(), may_read(secret); });
  {
    const AsUser user(stranger);
    go.set_value();
    CHECK(seen.get());
    CHECK_FALSE(may_read(secret));
    CHECK(may_read(open));
    std::ofstream(theirs / "made") << "m";
    CHECK_FALSE(static_cast<bool>(std::ofstream(folder.path / "not_made")));
  }
  CHECK(may_read(secret));
  struct stat made {};
  REQUIRE(::stat((theirs / "made").c_str(), &made) == 0);
  CHECK(made.st_uid == somebody);
  CHECK(made.st_gid == somebody);
  CHECK(::geteuid() == 0);
}

TEST_CASE("a program in a folder of root's is refused in words before a node is made of it") {
  test::need_root();
  const TemporaryFolder folder;
  const auto program = (folder.path / "program").string();
  std::ofstream(program) << "#!/bin/sh\n";
  ::chmod(program.c_str(), 0755);
  ::chmod(folder.path.c_str(), 0755);
  CHECK_NOTHROW(require_runnable(program, stranger));
  ::chmod(folder.path.c_str(), 0700);
  CHECK_THROWS_WITH(require_runnable(program, stranger),
                    test::Contains(program + ": Permission denied") && test::Contains("unset SUDO_UID"));
  CHECK_NOTHROW(require_runnable(program, root));
}

TEST_CASE("for the user that this process runs as nothing changes") {
  const AsUser user({::geteuid(), ::getegid()});
  CHECK(may_read("/proc/self/environ"));
}

}  // namespace virtrain::vmctl
