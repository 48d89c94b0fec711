#include "results/exchange/files/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <istream>
#include <string>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

std::string hidden_name(const std::string& beside) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    throw errno_error("make a folder next to " + beside, errno);
  }
  return fmt::format(".{}.{:016x}", beside, random);
}

}  // namespace

WorkFolder::WorkFolder(const fs::path& beside) : place_(beside, "make a folder next to " + beside.string()) {
  constexpr mode_t owner_only = 0700;
  place_.name = hidden_name(place_.name);
  named_ = fs::absolute(beside).parent_path() / place_.name;
  const auto operation = "make " + named_.string();
  const auto parent = place_.folder.get();
  if (::mkdirat(parent, place_.name.c_str(), owner_only) != 0) { throw errno_error(operation, errno); }
  folder_ = UniqueFd(::openat(parent, place_.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!folder_ || ::fstat(folder_.get(), &status) != 0) { throw errno_error(operation, errno); }
  // In a folder of theirs, others may have put one of their own in its place.
  if (status.st_uid != ::geteuid() || (status.st_mode & 07777) != owner_only) {
    throw Error(operation, ErrorCode::host_unable,
                "another user has replaced it; write to a folder of your own");
  }
}

WorkFolder::~WorkFolder() {
  if (!folder_) { return; }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path(), ignored)) { fs::remove_all(entry.path(), ignored); }
  ::unlinkat(place_.folder.get(), place_.name.c_str(), AT_REMOVEDIR);
}

fs::path WorkFolder::path() const {
  return fs::path("/proc/self/fd") / std::to_string(folder_.get());
}

namespace {

constexpr const char* ways_out = "free space there, or choose another folder with TMPDIR";

/// Where TMPDIR says, else /tmp.
std::filesystem::path folder_of_temporary_files() {
  std::error_code unusable;
  auto folder = std::filesystem::temp_directory_path(unusable);
  return unusable ? "/tmp" : folder;
}

/// Without a name from the start where the file system can do that, else unlinked at once.
UniqueFd open_nameless(const std::filesystem::path& folder) {
  constexpr mode_t owner_only = 0600;
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, owner_only));
  if (file || (errno != EOPNOTSUPP && errno != EISDIR)) { return file; }
  auto name = (folder / "virtrain-XXXXXX").string();
  file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (file) { ::unlink(name.c_str()); }
  return file;
}

}  // namespace

TemporaryText::TemporaryText() : folder_(folder_of_temporary_files()) {
  auto descriptor = open_nameless(folder_);
  if (descriptor) { file_.reset(::fdopen(descriptor.get(), "w+b")); }
  if (!file_) {
    const int reason = errno;
    throw Error("make a temporary file in " + printable(folder_.string()), ErrorCode::io,
                fmt::format("{}; {}", std::generic_category().message(reason), ways_out));
  }
  descriptor.release();
}

void TemporaryText::refuse(const std::string& what) const {
  const int reason = errno;
  throw Error("read " + what, ErrorCode::io,
              fmt::format("it could not be copied to a temporary file in {}: {}; {}",
                          printable(folder_.string()), std::generic_category().message(reason), ways_out));
}

std::filesystem::path TemporaryText::path() const {
  return fmt::format("/proc/self/fd/{}", ::fileno(file_.get()));
}

void TemporaryText::write(std::string_view bytes, const std::string& what) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) { refuse(what); }
}

void TemporaryText::take(std::string_view bytes, const std::string& what, std::uint64_t& left,
                         std::uint64_t most_bytes) {
  if (bytes.size() > left) {
    throw Error(what, ErrorCode::bad_input,
                fmt::format("there are more than {} bytes, the most that import reads of a pipe; write them "
                            "to a file and import that",
                            most_bytes));
  }
  left -= bytes.size();
  write(bytes, what);
}

void TemporaryText::copy(std::istream& in, const std::string& what, std::uint64_t most_bytes) {
  std::vector<char> piece(std::size_t{1} << 16);
  for (std::uint64_t left = most_bytes;
       in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0;) {
    take({piece.data(), static_cast<std::size_t>(in.gcount())}, what, left, most_bytes);
  }
  finish(what);
}

void TemporaryText::copy(int pipe, const std::string& what, std::uint64_t most_bytes) {
  std::uint64_t left = most_bytes;
  const bool whole = read_pieces(pipe, [&](std::string_view bytes) {
    take(bytes, what, left, most_bytes);
    return true;
  });
  if (!whole) {
    throw Error(what, ErrorCode::bad_input,
                errno == ETIMEDOUT ? "it is a pipe, and nothing more comes through it"
                                   : "reading failed before its end");
  }
  finish(what);
}

void TemporaryText::finish(const std::string& what) {
  if (std::fflush(file_.get()) != 0) { refuse(what); }
}

}  // namespace virtrain::results
