#include "common/files/user_folders.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
namespace fs = std::filesystem;

namespace {

/// Sets variables for one test and puts them back.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

mode_t mode_of_folder(const fs::path& folder) {
  struct stat status {};
  REQUIRE(::stat(folder.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("row 13: root keeps out of a user's home, whatever HOME says") {
  test::need_root();
  const TemporaryFolder folder;
  const auto theirs = folder.path / "ada", ours = folder.path / "own";
  fs::create_directories(theirs);
  fs::create_directories(ours);
  REQUIRE(::chown(theirs.c_str(), test::stranger, test::stranger) == 0);
  {
    const Environment sudo({{"HOME", theirs.string()},
                            {"XDG_DATA_HOME", (theirs / ".local/share").string()},
                            {"XDG_CACHE_HOME", (ours / "cache").string()}});
    CHECK(home_folder() == "/root");
    CHECK(user_folder("XDG_DATA_HOME", ".local/share") == "/root/.local/share");
    CHECK(user_folder("XDG_CACHE_HOME", ".cache") == ours / "cache");
    const auto words = passed_over_folders();
    CHECK(words.find("HOME (" + theirs.string() + ", of user 65534)") == 0);
    CHECK(words.find("XDG_DATA_HOME") != std::string::npos);
    CHECK(words.find("XDG_CACHE_HOME") == std::string::npos);
    // In a child, whose environment may change: what it starts finds nothing of theirs.
    const pid_t child = ::fork();
    if (child == 0) {
      leave_folders_of_others();
      const char* cache = std::getenv("XDG_CACHE_HOME");
      const bool is_left = std::string(std::getenv("HOME")) == "/root" &&
                           std::getenv("XDG_DATA_HOME") == nullptr && cache != nullptr &&
                           (ours / "cache").string() == cache && passed_over_folders() == words;
      ::_exit(is_left ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const Environment own({{"HOME", ours.string()}, {"XDG_STATE_HOME", ""}});
  CHECK(home_folder() == ours);
  CHECK(user_folder("XDG_STATE_HOME", ".local/state") == ours / ".local/state");
}

TEST_CASE("relative folders in the environment are passed over") {
  const Environment relative({{"HOME", "home"}, {"XDG_DATA_HOME", "data"}});
  CHECK(home_folder().is_absolute());
  CHECK(user_folder("XDG_DATA_HOME", ".local/share") == home_folder() / ".local/share");
  CHECK(passed_over_folders().empty());
}

TEST_CASE("row 11: a folder of our own has its mode whatever the umask, and an older one is tightened") {
  const TemporaryFolder folder;
  for (const mode_t mask : {0, 022, 077}) {
    const mode_t before = ::umask(mask);
    const auto made = folder.path / ("made-" + std::to_string(mask)) / "below";
    make_own_folder(made, 0711);
    ::umask(before);
    CHECK(mode_of_folder(made) == 0711);
  }
  const auto old = folder.path / "old";
  fs::create_directory(old);
  ::chmod(old.c_str(), 0777);
  make_own_folder(old, 0700);
  CHECK(mode_of_folder(old) == 0700);
  make_own_folder(old, 0755);  // what somebody has closed stays closed
  CHECK(mode_of_folder(old) == 0700);
  CHECK_THROWS_AS(make_own_folder("/tmp", 0700), Error);
  CHECK((mode_of_folder("/tmp") & S_ISVTX) != 0);
}

TEST_CASE("row 13: a folder of somebody else is not taken for our own") {
  test::need_root();
  const TemporaryFolder folder;
  const auto theirs = folder.path / "theirs";
  fs::create_directory(theirs);
  REQUIRE(::chown(theirs.c_str(), test::stranger, test::stranger) == 0);
  CHECK_THROWS_WITH(make_own_folder(theirs, 0700), virtrain::test::Contains("belongs to user 65534"));
  fs::create_symlink(theirs, folder.path / "link");
  CHECK_THROWS_WITH(make_own_folder(folder.path / "link", 0700),
                    virtrain::test::Contains("belongs to user 65534"));
}

TEST_CASE("row 13: nobody else's link leads us to a folder of ours") {
  test::need_root();
  const TemporaryFolder folder;
  const auto ours = folder.path / "ours";
  fs::create_directory(ours);
  fs::permissions(ours, fs::perms(0755));
  const auto link = folder.path / "link";
  fs::create_symlink(ours, link);
  make_own_folder(link / "below", 0700);
  REQUIRE(::lchown(link.c_str(), test::stranger, test::stranger) == 0);
  CHECK_THROWS_WITH(make_own_folder(link, 0700),
                    virtrain::test::Contains("is a link that belongs to user 65534"));
  CHECK_THROWS_WITH(make_own_folder(link / "below", 0700),
                    virtrain::test::Contains("is a link that belongs to user"));
  CHECK(mode_of_folder(ours) == 0755);
}
