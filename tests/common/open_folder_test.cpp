#include "common/files/open_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using virtrain::test::Contains;
namespace fs = std::filesystem;

namespace {

bool is_same_folder(const UniqueFd& open, const fs::path& path) {
  struct stat one {
  }, other{};
  return ::fstat(open.get(), &one) == 0 && ::stat(path.c_str(), &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}

void give_away(const fs::path& path) {
  REQUIRE(::lchown(path.c_str(), test::stranger, test::stranger) == 0);
}

}  // namespace

TEST_CASE("a folder is found by any way that is ours") {
  const TemporaryFolder folder;
  const auto there = folder.path / "a/b";
  fs::create_directories(there);
  fs::create_symlink("b", folder.path / "a/near");
  fs::create_symlink(folder.path / "a/near", folder.path / "far");
  fs::create_symlink("again", folder.path / "again");
  for (const auto& way :
       {there, there / "", there / "." / ".." / "b", folder.path / "a/near", folder.path / "far"}) {
    CAPTURE(way);
    CHECK(is_same_folder(open_folder(way, "x"), there));
  }
  CHECK(is_same_folder(open_folder("", "x"), "."));
  CHECK(is_same_folder(open_folder(there / "new/er", "x", 0700), there / "new/er"));
  CHECK_THROWS_WITH(open_folder(folder.path / "none", "x"), Contains("x: No such file or directory"));
  CHECK_THROWS_WITH(open_folder(folder.path / "again", "x"), Contains("x: "));
  std::ofstream(there / "file") << "";
  CHECK_THROWS_WITH(open_folder(there / "file", "x"), Contains("Not a directory"));

  const FilePlace place(folder.path / "far/file", "x");
  CHECK(place.name == "file");
  CHECK(is_same_folder(place.folder, there));
  fs::create_symlink("far/file", folder.path / "link");
  CHECK(FilePlace(folder.path / "link", "x").name == "link");
  CHECK(is_same_folder(FilePlace(folder.path / "link", "x", LastLink::is_followed).folder, there));
  CHECK_THROWS_AS(FilePlace(folder.path / "far/", "x"), Error);
}

TEST_CASE("no link of somebody else's, and none in their folder, is followed to write a file") {
  test::need_root();
  const TemporaryFolder folder;
  const auto ours = folder.path / "ours", theirs = folder.path / "theirs";
  fs::create_directory(ours);
  fs::create_directory(theirs);
  fs::create_symlink(ours, folder.path / "turned");
  fs::create_symlink(ours, theirs / "inside");
  give_away(folder.path / "turned");
  give_away(theirs);
  const auto write = [](std::ostream& out) { out << "new"; };
  for (const auto& way : {folder.path / "turned", theirs / "inside"}) {
    CAPTURE(way);
    const auto words = Contains("is a link that belongs to user 65534");
    CHECK_THROWS_WITH(write_whole(way / "file", write), words);
    CHECK_THROWS_WITH(write_file_atomically(way / "file", "new"), words);
    CHECK_THROWS_WITH(open_folder(way / "made", "x", 0777), words);
  }
  CHECK(fs::is_empty(ours));
  write_whole(theirs / "file", write);  // as with sudo in one's own folder
  CHECK(read_file(theirs / "file") == "new");
}

TEST_CASE("a file is finished in the folder in which it was begun, wherever that is by then") {
  const TemporaryFolder folder;
  const auto begun = folder.path / "begun", moved = folder.path / "moved", victim = folder.path / "victim";
  fs::create_directory(begun);
  fs::create_directory(victim);
  std::ofstream(victim / "file") << "precious";
  write_whole(begun / "file", [&](std::ostream& out) {
    fs::rename(begun, moved);
    fs::create_directory_symlink(victim, begun);
    out << "new";
  });
  CHECK(read_file(victim / "file") == "precious");
  CHECK(read_file(moved / "file") == "new");
}

TEST_CASE("a pipe with a name is read while somebody writes, and not waited for without end") {
  const TemporaryFolder folder;
  const auto pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(open_to_read(pipe));
  CHECK(errno == EINVAL);
  CHECK_FALSE(open_stream(pipe).is_open());
  std::thread writer([&] { std::ofstream(pipe) << "text"; });
  const auto file = open_to_read(pipe, Readable::regular_file_or_pipe);
  REQUIRE(file);
  CHECK(read_at_most(file.get(), 100) == "text");
  writer.join();
  CHECK_FALSE(open_to_read(pipe, Readable::regular_file_or_pipe, std::chrono::milliseconds(50)));
  CHECK(errno == ETIMEDOUT);
}
