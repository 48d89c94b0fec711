#include "vmctl/process/private_user.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "common/files/new_file.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

struct stat status_of(const fs::path& file) {
  struct stat status {};
  REQUIRE(::lstat(file.c_str(), &status) == 0);
  return status;
}

TEST_CASE("row 2: unprivileged work is done by a user that nobody else can be") {
  test::need_root();
  const PrivateUser user, another;
  CHECK(user.id() >= 61184);
  CHECK(user.id() != 65534);
  CHECK(user.id() != another.id());
  CHECK(::getpwuid(user.id()) == nullptr);
  const auto said =
      run_checked(user.command({"sh", "-c", "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status"}));
  const auto id = std::to_string(user.id());
  CHECK(said.out == id + "\n" + id + "\n" + id + "\nNoNewPrivs:\t1\n");
  CHECK(run_command(user.command({"cat", "/etc/shadow"})).exit_status != 0);
}

TEST_CASE("row 2: what root takes back leads nowhere else, and nobody is left who could change it") {
  test::need_root();
  const TemporaryFolder folder;
  fs::permissions(folder.path, fs::perms(0755));
  const auto victim = folder.path / "victim";
  write_file_atomically(victim, "secret");
  ::chmod(victim.c_str(), 0600);
  const auto work = folder.path / "work";
  const PrivateUser user;
  user.make_folder(work);
  // A process that outlives its command and plants links for as long as it can.
  const std::string script =
      "cd " + work.string() +
      "; mkdir -p out/deep; echo built > out/root; chmod 4755 out/root; echo x > out/deep/file\n"
      "ln -s " +
      victim.string() +
      " out/kernel; mkfifo out/initrd; ln out/root out/again\n"
      "(setsid sh -c 'while :; do ln -sf " +
      victim.string() + " out/late; done' > /dev/null 2>&1 &) ; sleep 0.2";
  run_checked(user.command({"sh", "-c", script}));
  user.take_back(work);

  CHECK(status_of(victim).st_mode == (S_IFREG | 0600));
  for (const auto* name : {"", "out", "out/deep", "out/deep/file"}) {
    INFO(name);
    CHECK(status_of(work / name).st_uid == 0);
    CHECK((status_of(work / name).st_mode & 07777) == (fs::is_directory(work / name) ? 0755U : 0644U));
  }
  for (const auto* name : {"out/kernel", "out/initrd", "out/again", "out/late", "out/root"}) {
    INFO(name);
    const bool there = fs::exists(fs::symlink_status(work / name));
    // Of two hard links the last one is a plain file again.
    if (there) { CHECK((S_ISREG(status_of(work / name).st_mode) && status_of(work / name).st_uid == 0)); }
  }
  CHECK_FALSE(fs::exists(fs::symlink_status(work / "out/late")));
  const auto processes = run_command({"pgrep", "--runstates", "R,S,D,T", "-u", std::to_string(user.id())});
  CHECK(processes.out.empty());
}

}  // namespace
}  // namespace virtrain::vmctl
