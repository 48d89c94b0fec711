#include "common/files/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "common/files/unique_fd.h"

namespace virtrain {

NewFile::NewFile(const std::filesystem::path& path, mode_t mode)
    : NewFile(FilePlace(path, "write " + path.string()), path, mode) {}

NewFile::NewFile(FilePlace place, const std::filesystem::path& path, mode_t mode)
    : operation_("write " + path.string()), place_(std::move(place)) {
  constexpr int tries = 100;
  for (int i = 0; i < tries; ++i) {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) { break; }
    name_ = fmt::format(".virtrain-{:016x}", random);
    file_.reset(::openat(place_.folder.get(), name_.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (file_) { return; }
    if (errno != EEXIST) { break; }
  }
  name_.clear();
  throw errno_error(operation_, errno);
}

NewFile::~NewFile() {
  if (!name_.empty()) { ::unlinkat(place_.folder.get(), name_.c_str(), 0); }
}

void NewFile::take_place(std::optional<mode_t> mode) {
  const int folder = place_.folder.get();
  const bool done = (!mode || ::fchmod(file_.get(), *mode) == 0) && ::fsync(file_.get()) == 0 &&
                    ::renameat(folder, name_.c_str(), folder, place_.name.c_str()) == 0;
  if (!done) { throw errno_error(operation_, errno); }
  name_.clear();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           std::optional<mode_t> mode) {
  constexpr mode_t own = 0600, usual = 0644;
  NewFile file(path, mode ? own : usual);
  for (std::string_view rest = content; !rest.empty();) {
    const auto written = ::write(file.descriptor(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) { continue; }
    if (written < 0) { throw errno_error("write " + path.string(), errno); }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  file.take_place(mode);
}

namespace {

/// Writes to a file and keeps what the system said when it refused: of a stream only its failure is known.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(int file) : file_(file), bytes_(std::size_t{64} << 10) { start(); }
  /// errno of the first write that failed; 0 if none did.
  int failure() const { return failure_; }

 protected:
  int_type overflow(int_type byte) override {
    if (sync() != 0) { return traits_type::eof(); }
    if (byte != traits_type::eof()) { sputc(traits_type::to_char_type(byte)); }
    return traits_type::not_eof(byte);
  }

  int sync() override {
    for (const char* at = pbase(); at < pptr() && failure_ == 0;) {
      const auto count = ::write(file_, at, static_cast<std::size_t>(pptr() - at));
      if (count >= 0) {
        at += count;
      } else if (errno != EINTR) {
        failure_ = errno;
      }
    }
    start();
    return failure_ == 0 ? 0 : -1;
  }

 private:
  void start() { setp(bytes_.data(), bytes_.data() + bytes_.size()); }

  int file_;
  int failure_ = 0;
  std::vector<char> bytes_;
};

void write_to(int descriptor, const std::filesystem::path& file,
              const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer(descriptor);
  std::ostream out(&buffer);
  write(out);
  out.flush();
  if (buffer.failure() != 0) { throw errno_error("write " + file.string(), buffer.failure()); }
  if (!out) { throw Error("write " + file.string(), ErrorCode::io, "the output could not be made"); }
}

/// The descriptor that `file` names, if the caller gave it to us: those of our own are closed on exec.
std::optional<int> given_descriptor(const std::filesystem::path& file) {
  const auto descriptor = named_descriptor(file);
  if (descriptor && !was_given(*descriptor)) { throw errno_error("write " + file.string(), EBADF); }
  return descriptor;
}

/// Finds an output that is written to and never replaced, and does not open it yet: a pipe or a character
/// device of this very name, ours or root's. None where the name is free, a file's or a link's, which may
/// lead to anything.
UniqueFd find_in_place(const FilePlace& place, const std::string& operation) {
  UniqueFd found(::openat(place.folder.get(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!found || ::fstat(found.get(), &status) != 0) { return {}; }
  if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) { return {}; }
  if (S_ISDIR(status.st_mode)) { throw errno_error(operation, EISDIR); }
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) {
    throw Error(operation, ErrorCode::io, "it is a block device or a socket; give the name of a file");
  }
  if (!is_trusted_owner(status.st_uid)) {
    throw Error(operation, ErrorCode::io,
                fmt::format("it is a pipe or device that belongs to user {}; give the name of a file, or "
                            "/dev/stdout",
                            status.st_uid));
  }
  return found;
}

UniqueFd open_in_place(const FilePlace& place, const std::string& operation) {
  const auto found = find_in_place(place, operation);
  if (!found) { return {}; }
  // The very one that was looked at, whatever has its name by now.
  UniqueFd open(
      ::open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!open) { throw errno_error(operation, errno); }
  return open;
}

/// The file of this very name that the output replaces; no link.
std::optional<struct stat> regular_file(const FilePlace& place) {
  struct stat status {};
  const bool is_there =
      ::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(status.st_mode);
  return is_there ? std::optional(status) : std::nullopt;
}

/// Who may do what with the file that takes the old one's place: the same, but nobody may write to it whom a
/// stranger, or another group of ours, let write to the old one.
mode_t kept_mode(const struct stat& old, int file) {
  constexpr mode_t all = 0777, others_write = 022;
  struct stat status {};
  const bool is_alike =
      ::fstat(file, &status) == 0 && status.st_uid == old.st_uid && status.st_gid == old.st_gid;
  return old.st_mode & (is_alike ? all : all & ~others_write);
}

std::string operation_of(const std::filesystem::path& file) {
  return "write " + file.string();
}

void replace_at(FilePlace place, const std::filesystem::path& file, const std::function<void(int)>& write) {
  // Hidden and without the collector's ".prom" at its end: nobody reads half of it.
  constexpr mode_t own = 0600, usual = 0644;
  auto old = regular_file(place);
  // A stranger's old file says nothing about who may read the new one.
  if (old && old->st_uid != ::geteuid() && old->st_uid != 0) { old.reset(); }
  NewFile whole(std::move(place), file, old ? own : usual);
  write(whole.descriptor());
  whole.take_place(old ? std::optional(kept_mode(*old, whole.descriptor())) : std::nullopt);
}

}  // namespace

bool is_written_in_place(const std::filesystem::path& file) {
  return given_descriptor(file) || find_in_place(FilePlace(file, operation_of(file)), operation_of(file));
}

void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  if (const auto given = given_descriptor(file)) { return write_to(*given, file, write); }
  FilePlace place(file, operation_of(file));
  if (const auto open = open_in_place(place, operation_of(file))) {
    return write_to(open.get(), file, write);
  }
  replace_at(std::move(place), file, [&](int descriptor) { write_to(descriptor, file, write); });
}

void replace_file(const std::filesystem::path& file, const std::function<void(int)>& write) {
  replace_at(FilePlace(file, operation_of(file)), file, write);
}

}  // namespace virtrain
