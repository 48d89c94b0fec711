#include "common/files/reading.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/files/unique_fd.h"
#include "common/text/text.h"

namespace virtrain {

UniqueFd open_to_read(const std::filesystem::path& path, Readable kind, std::chrono::milliseconds silence) {
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!found || ::fstat(found.get(), &status) != 0) { return {}; }
  const bool is_readable =
      S_ISREG(status.st_mode) || (S_ISFIFO(status.st_mode) && kind == Readable::regular_file_or_pipe);
  if (!is_readable) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    return {};
  }
  const auto given = S_ISFIFO(status.st_mode) ? named_descriptor(path) : std::nullopt;
  if (given && was_given(*given)) { return UniqueFd(::fcntl(*given, F_DUPFD_CLOEXEC, 0)); }
  // The very file that was looked at, whatever the path leads to by now.
  UniqueFd file(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
                       O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file || !S_ISFIFO(status.st_mode) || becomes_readable(file.get(), silence)) { return file; }
  errno = ETIMEDOUT;
  return {};
}

std::ifstream open_stream(const std::filesystem::path& path) {
  std::ifstream stream;
  constexpr auto proc = 0x9fa0;  // PROC_SUPER_MAGIC: its files may wait for ever
  struct statfs where {};
  const auto file = open_to_read(path);
  if (file && ::fstatfs(file.get(), &where) == 0 && where.f_type != proc) {
    stream.open("/proc/self/fd/" + std::to_string(file.get()), std::ios::binary);
  }
  return stream;
}

namespace {

/// Such a file has its end already. /proc/kmsg, which says that it is one, waits for what is yet to come.
bool is_regular(int file) {
  struct stat status {};
  const int before = errno;
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  errno = before;
  return regular;
}

}  // namespace

bool read_pieces(int file, const std::function<bool(std::string_view)>& take) {
  char buffer[16384];
  while (true) {
    const auto got = ::read(file, buffer, sizeof buffer);
    if (got == 0) { return true; }
    if (got > 0) {
      if (!take({buffer, static_cast<std::size_t>(got)})) { return true; }
      continue;
    }
    if (errno == EINTR) { continue; }
    if (errno != EAGAIN || is_regular(file)) { return false; }
    if (becomes_readable(file, longest_silence)) { continue; }
    errno = ETIMEDOUT;
    return false;
  }
}

std::optional<std::string> read_at_most(int file, std::size_t most_bytes) {
  std::string content;
  const bool whole = read_pieces(file, [&](std::string_view piece) {
    content += piece.substr(0, most_bytes - content.size());
    return content.size() < most_bytes;
  });
  return whole ? std::optional(std::move(content)) : std::nullopt;
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const auto file = open_to_read(path);
  auto content = file ? read_at_most(file.get(), most_bytes + 1) : std::nullopt;
  if (!content || content->size() <= most_bytes) { return content; }
  errno = EFBIG;
  return std::nullopt;
}

std::optional<std::string> read_tail(const std::filesystem::path& path, std::size_t most_bytes) {
  const auto file = open_to_read(path);
  if (!file) { return std::nullopt; }
  const auto end = ::lseek(file.get(), 0, SEEK_END);
  if (end < 0) { return std::nullopt; }
  const auto most = static_cast<off_t>(most_bytes);
  const off_t begin = end > most ? end - most : 0;
  std::string tail(static_cast<std::size_t>(end - begin), '\0');
  const auto got = ::pread(file.get(), tail.data(), tail.size(), begin);
  if (got < 0) { return std::nullopt; }
  tail.resize(static_cast<std::size_t>(got));
  return tail;
}

std::optional<std::string> read_value(const std::filesystem::path& path) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  auto content = read_file(path, most_bytes);
  if (content) { content = std::string(trim(*content)); }
  return content;
}

std::string link_name(const std::filesystem::path& link) {
  std::error_code failure;
  const auto target = std::filesystem::read_symlink(link, failure);
  return failure ? "" : target.filename().string();
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> entry_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) { names.push_back(entry.filename().string()); }
  return names;
}

}  // namespace virtrain
