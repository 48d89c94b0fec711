// What another user of this host can have root's clean believe. Root only.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/vmctl/resources/support.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/slice.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Copies of the shell under other names, which all may execute; and what they read from: nothing ever comes.
struct Disguises {
  Disguises() {
    test::need_root();
    fs::permissions(folder.path, fs::perms(0755));
    REQUIRE(::pipe(life) == 0);
    input = ::dup(0);
    ::dup2(life[0], 0);
  }
  Disguises(const Disguises&) = delete;
  Disguises& operator=(const Disguises&) = delete;
  ~Disguises() {
    ::dup2(input, 0);
    for (const int file : {life[0], life[1], input}) { ::close(file); }
  }

  fs::path shell(const std::string& name) const {
    if (!fs::exists(folder.path / name)) { fs::copy_file("/bin/sh", folder.path / name); }
    return folder.path / name;
  }
  /// A stranger's shell of this name that runs the script.
  pid_t start(const std::string& name, const std::string& argument, const char* script = "read never") const {
    const auto program = shell(name);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(test::stranger) == 0 && ::setuid(test::stranger) == 0) {
        ::execl(program.c_str(), program.c_str(), "-c", script, argument.c_str(), nullptr);
      }
      ::_exit(1);
    }
    for (int i = 0; i < 500 && process_info(child).value_or(ProcessInfo{}).name != name; ++i) {
      ::usleep(10'000);
    }
    return child;
  }

  TemporaryFolder folder;
  int life[2] = {-1, -1};
  int input = -1;
};

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

/// The first child of a process, once it is there.
pid_t child_of(pid_t parent) {
  for (int i = 0; i < 500; ++i) {
    const auto tree = process_tree(parent);
    if (tree.size() > 1 && process_variable(tree[1], slice_variable)) { return tree[1]; }
    ::usleep(10'000);
  }
  return 0;
}

TEST_CASE("root leaves the QEMU of a user's session alone, whether that user's virtrain runs or not") {
  const Disguises disguises;
  const auto qemu =
      disguises.start("qemu-system-x86", "guest=virtrain-20261120t083012-7e1e15-1,debug-threads=on");
  const auto harness = disguises.start("virtrain", "run");
  const auto name = std::to_string(qemu);
  CHECK(this_caller().other_harnesses.contains(test::stranger));
  const auto during = find_leftovers(nullptr, nullptr);
  CHECK(has(during.foreign, EffectKind::process, name));
  CHECK_FALSE(has(during.leftovers, EffectKind::process, name));
  end(harness);
  const auto afterwards = find_leftovers(nullptr, nullptr);
  CHECK(has(afterwards.foreign, EffectKind::process, name));
  CHECK_FALSE(has(afterwards.leftovers, EffectKind::process, name));
  end(qemu);
}

/// A stranger who exchanges a folder of theirs for a link, and back, until they are killed.
class Exchanger {
 public:
  Exchanger(const fs::path& folder, const fs::path& target) {
    const auto inner = folder / "inner", aside = folder / "aside", link = folder / "link";
    child_ = ::fork();
    if (child_ != 0) { return; }
    if (::setgid(test::stranger) != 0 || ::setuid(test::stranger) != 0) { ::_exit(1); }
    while (true) {
      ::mkdir(folder.c_str(), 0700);
      ::mkdir(inner.c_str(), 0700);
      ::close(::creat((inner / "file").c_str(), 0600));
      if (::symlink(target.c_str(), link.c_str()) != 0 && errno != EEXIST) { continue; }
      ::rename(inner.c_str(), aside.c_str());
      ::rename(link.c_str(), inner.c_str());
    }
  }
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;
  ~Exchanger() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_ = 0;
};

TEST_CASE(
    "row 1: root removes a folder of the calling user's and follows no link that they exchange meanwhile") {
  test::need_root();
  const TemporaryFolder place;
  fs::permissions(place.path, fs::perms(0755));
  const auto roots = place.path / "roots",
             theirs = place.path / "open" / "virtrain-vt-5a1e00-1-0123456789abcdef";
  fs::create_directories(roots / "below");
  std::ofstream(roots / "below" / "kept") << "root's";
  fs::create_directory(theirs.parent_path());
  fs::permissions(theirs.parent_path(), fs::perms(01777));  // as /dev/shm is
  make_folder_of(theirs, {test::stranger, test::stranger});
  std::uintmax_t removed = 0;
  {
    const Exchanger exchanger(theirs, roots);
    for (const auto ends = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
         std::chrono::steady_clock::now() < ends;) {
      std::error_code raced;
      if (const auto count = fs::remove_all(theirs, raced); !raced) { removed += count; }
    }
  }
  CHECK(removed > 0);
  CHECK(fs::exists(roots / "below" / "kept"));
}

TEST_CASE("row 12: root kills no stranger's process, whatever it calls itself and says of itself") {
  const Disguises disguises;
  disguises.shell("virtrain-agent");
  int said[2];
  REQUIRE(::pipe(said) == 0);
  // An orphan, as what a killed harness left would be.
  const pid_t starter = ::fork();
  if (starter == 0) {
    ::setenv(slice_variable, "vt-7e1e15-1", 1);
    ::setenv(experiment_variable, "20261120t083012-7e1e15", 1);
    const pid_t orphan = disguises.start("virtrain-agent", "");
    if (::write(said[1], &orphan, sizeof orphan) < 0) { ::_exit(1); }
    ::_exit(0);
  }
  pid_t orphan = 0;
  REQUIRE(::read(said[0], &orphan, sizeof orphan) == sizeof orphan);
  ::waitpid(starter, nullptr, 0);
  const auto name = std::to_string(orphan);
  const auto view = find_leftovers(nullptr, nullptr);
  CHECK(has(view.foreign, EffectKind::process, name));
  CHECK_FALSE(has(view.leftovers, EffectKind::process, name));
  // and a process that has only inherited the number of one that was found is left alone
  CHECK(kill_and_wait(orphan, process_info(orphan).value_or(ProcessInfo{}).start_time + 1));
  CHECK(process_info(orphan));
  CHECK(::kill(orphan, 0) == 0);
  ::kill(orphan, SIGKILL);
  for (const int file : said) { ::close(file); }
}

TEST_CASE("row 12: a stranger's process hides nothing of root's that a killed run left") {
  const Disguises disguises;
  constexpr const char* left = "vt-7e1e15-2";
  run_command({"ip", "netns", "del", left});  // of a test that was killed
  run_checked({"ip", "netns", "add", left});
  // As a live harness would look: a helper with a parent, and below it what is in the slice.
  const auto helper =
      disguises.start("virtrain-slice", "", "VIRTRAIN_SLICE=vt-7e1e15-2 /bin/sh -c 'read never; true'; true");
  const auto inside = child_of(helper);
  REQUIRE(inside != 0);
  const auto view = find_leftovers(nullptr, nullptr);
  CHECK(has(view.leftovers, EffectKind::netns, left));
  CHECK_FALSE(has(view.in_use, EffectKind::netns, left));
  CHECK(has(view.foreign, EffectKind::process, std::to_string(inside)));
  ::kill(inside, SIGKILL);
  end(helper);
  run_checked({"ip", "netns", "del", left});
}

TEST_CASE("row 12: a process is root's by a slice's cgroup that root made, not by one of the same name") {
  const Disguises disguises;
  constexpr const char* slice = "vt-7e1e15-3";
  constexpr std::uint64_t some_memory = 64U << 20;
  const auto groups = make_slice_cgroups(slice, {0}, some_memory);
  if (groups.folders.empty()) { test::skip("no cgroups can be made here"); }
  const auto roots = groups.folders.front();
  const auto lent = roots.parent_path() / "vtstranger", strangers = lent / slice;
  for (const auto& group : {lent, strangers}) {
    fs::create_directory(group);
    CHECK(::chown(group.c_str(), test::stranger, test::stranger) == 0);
  }
  // Its helper is not root's in either case, so it proves no harness of root's.
  const auto helper =
      disguises.start("virtrain-slice", "", "VIRTRAIN_SLICE=vt-7e1e15-3 /bin/sh -c 'read never; true'; true");
  const auto inside = child_of(helper);
  REQUIRE(inside != 0);
  const auto name = std::to_string(inside);
  std::ofstream(strangers / "cgroup.procs") << inside << std::flush;
  CHECK(has(find_leftovers(nullptr, nullptr).foreign, EffectKind::process, name));
  std::ofstream(roots / "cgroup.procs") << inside << std::flush;
  CHECK(has(find_leftovers(nullptr, nullptr).leftovers, EffectKind::process, name));
  ::kill(inside, SIGKILL);
  end(helper);
  for (const auto& group : {strangers, lent}) { CHECK(remove_cgroup(group)); }
  for (const auto& group : groups.folders) { CHECK(remove_cgroup(group)); }
}

}  // namespace
}  // namespace virtrain::vmctl
