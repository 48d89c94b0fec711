#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <streambuf>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/file_trust.h"
#include "common/files/given_descriptors.h"
#include "common/files/new_file.h"
#include "common/files/unique_fd.h"
#include "common/text/units.h"
#include "results/exchange/exporters/exporters.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {

std::vector<std::string> experiments_to_export(const Store& store, const Selection& selection) {
  std::vector<std::string> ids;
  if (selection.all) {
    for (const auto& summary : store.list_experiments()) { ids.push_back(summary.experiment.id); }
    if (!ids.empty()) { return ids; }
  }
  const bool by_name_only =
      !selection.experiments.empty() && selection.scenario.empty() && selection.label.empty();
  if (!by_name_only) { return store.select(selection); }
  for (const auto& summary : store.list_experiments()) {
    const auto& wanted = selection.experiments;
    const auto& id = summary.experiment.id;
    if (contains(wanted, id)) { ids.push_back(id); }
  }
  return ids.size() == selection.experiments.size() ? ids : store.select(selection);
}

Table view_table(const Store& store, const std::vector<std::string>& experiments, const std::string& view) {
  const auto rows = store.view(view, experiments);
  Table table;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const auto is_number = [&](const auto& row) { return row[i].is_number(); };
    table.columns.push_back({rows.columns[i], rows.columns[i], std::ranges::any_of(rows.rows, is_number)});
  }
  for (const auto& row : rows.rows) {
    auto& cells = table.rows.emplace_back();
    for (const auto& value : row) {
      const auto text = value.is_string() ? value.get<std::string>()
                        : value.is_null() ? ""
                                          : canonical_json(value);
      cells.push_back({value, text});
    }
  }
  return table;
}

namespace {

/// Writes to a file and keeps what the system said when it refused: of a stream only its failure is known.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(int file) : file_(file), bytes_(std::size_t{64} << 10) { start(); }
  /// Of the first write that failed; 0 if none did.
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

/// The N of /dev/fd/N, and of its names for standard output and error, where we were given such a descriptor:
/// those of our own are closed on exec.
std::optional<int> given_descriptor(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  const auto name = file == "/dev/stdout"                              ? "1"
                    : file == "/dev/stderr"                            ? "2"
                    : folder == "/dev/fd" || folder == "/proc/self/fd" ? file.filename().string()
                                                                       : "";
  if (name.empty()) { return std::nullopt; }
  const auto number = parse_integer(name).value_or(-1);
  const int descriptor = std::in_range<int>(number) ? static_cast<int>(number) : -1;
  if (!was_given(descriptor)) { throw errno_error("write " + file.string(), EBADF); }
  return descriptor;
}

/// What is written to and never replaced, not yet opened: a pipe or a character device of this very name,
/// ours or root's. None where the name is free, a file's or a link's, which may lead to anything.
UniqueFd find_in_place(const std::filesystem::path& file) {
  const auto operation = "write " + file.string();
  UniqueFd found(::open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
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

UniqueFd open_in_place(const std::filesystem::path& file) {
  const auto found = find_in_place(file);
  if (!found) { return {}; }
  // The very one that was looked at, whatever has its name by now.
  UniqueFd open(
      ::open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!open) { throw errno_error("write " + file.string(), errno); }
  return open;
}

/// What is replaced: a file of this very name, no link.
std::optional<struct stat> regular_file(const std::filesystem::path& file) {
  struct stat status {};
  const bool is_there = ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode);
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

}  // namespace

bool is_written_in_place(const std::filesystem::path& file) {
  return given_descriptor(file) || find_in_place(file);
}

void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  if (const auto given = given_descriptor(file)) { return write_to(*given, file, write); }
  if (const auto open = open_in_place(file)) { return write_to(open.get(), file, write); }
  // Hidden and without the collector's ".prom" at its end: nobody reads half of it.
  constexpr mode_t own = 0600, usual = 0644;
  const auto old = regular_file(file);
  NewFile whole(file, old ? own : usual);
  write_to(whole.descriptor(), file, write);
  whole.take_place(old ? std::optional(kept_mode(*old, whole.descriptor())) : std::nullopt);
}

}  // namespace virtrain::results
