#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/devices/pci.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

ErrorCode code_of_write(const fs::path& file, std::string* words = nullptr) {
  try {
    write_sysfs(file, "0000:17:00.0\n", std::chrono::milliseconds(300));
  } catch (const Error& error) {
    if (words != nullptr) { *words = error.what(); }
    return error.code();
  }
  return ErrorCode::usage;  // none of its errors
}

TEST_CASE("a word is written as it is, and a file that is not there is not made") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "unbind") << "";
  CHECK(code_of_write(folder.path / "unbind") == ErrorCode::usage);
  CHECK(read_file(folder.path / "unbind") == "0000:17:00.0\n");
  std::string words;
  CHECK(code_of_write(folder.path / "missing", &words) == ErrorCode::io);
  CHECK(words.find("write 0000:17:00.0 to ") != std::string::npos);
  CHECK(words.find("No such file or directory") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.path / "missing"));
}

TEST_CASE("the kernel's refusal comes back in its words") {
  std::string words;
  CHECK(code_of_write("/dev/full", &words) == ErrorCode::io);
  CHECK(words.find("No space left on device") != std::string::npos);
}

TEST_CASE("a write that the kernel never answers ends by the deadline and holds nothing of ours") {
  const TemporaryFolder folder;
  const auto fifo = folder.path / "unbind";  // opening it blocks for ever: nobody reads
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto lock_file = folder.path / "lock";
  const int held = ::open(lock_file.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  std::string words;
  CHECK(code_of_write(fifo, &words) == ErrorCode::timeout);
  CHECK(words.find("still waits for it") != std::string::npos);
  ::close(held);
  const int other = ::open(lock_file.c_str(), O_RDWR);
  CHECK(::flock(other, LOCK_EX | LOCK_NB) == 0);
  ::close(other);
}

}  // namespace
}  // namespace virtrain::vmctl
