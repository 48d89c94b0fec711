#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <streambuf>

#include "common/contains.h"
#include "common/error.h"
#include "common/unique_fd.h"
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
    table.columns.push_back(
        {rows.columns[i], rows.columns[i], std::any_of(rows.rows.begin(), rows.rows.end(), is_number)});
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

}  // namespace

void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
    // A device or a pipe (/dev/stdout) is written to, never replaced.
    const UniqueFd device(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!device) { throw errno_error("write " + file.string(), errno); }
    return write_to(device.get(), file, write);
  }
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  // Hidden and without the collector's ".prom" at its end: nobody reads half of it.
  std::string name = folder / ("." + file.filename().string() + ".XXXXXX");
  // Written by its descriptor: in a folder of somebody else's the name may be another file's by now.
  const UniqueFd temporary(::mkostemp(name.data(), O_CLOEXEC));
  if (!temporary) { throw errno_error("write " + file.string(), errno); }
  try {
    write_to(temporary.get(), file, write);
    const bool done = ::fchmod(temporary.get(), 0644) == 0 && ::fsync(temporary.get()) == 0 &&
                      ::rename(name.c_str(), file.c_str()) == 0;
    if (!done) { throw errno_error("write " + file.string(), errno); }
  } catch (...) {
    ::unlink(name.c_str());
    throw;
  }
}

}  // namespace virtrain::results
