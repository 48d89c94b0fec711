#include "common/files/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/error.h"

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

}  // namespace virtrain
