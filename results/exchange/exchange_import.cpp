#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/exchange.h"
#include "results/exchange/files/checksums.h"
#include "results/exchange/files/unpack.h"
#include "results/exchange/files/work_folder.h"
#include "results/exchange/readers/readers.h"
#include "results/exchange/records/import_settings.h"
#include "results/exchange/records/line_reader.h"
#include "results/store/store.h"

namespace virtrain::results {
namespace {

/// Whether the file starts as SQLite's do.
bool is_database(const std::filesystem::path& file) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::array<char, magic.size()> start{};
  auto in = open_stream(file);
  return in.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == magic;
}

/// All experiments of another results database as exchange records. It stays as it is: what is read, and
/// brought up to date where it is of an older version, is a copy. Error(bad_input) where it is no database of
/// virtrain's, or one of a newer version.
TemporaryText records_of_database(const std::filesystem::path& file) {
  const auto name = file.string();
  TemporaryText records;
  try {
    const Store store(file, Store::Mode::copy);
    std::ofstream out(records.path(), std::ios::binary);
    export_jsonl(store, {.all = true}, out);
    out.close();
    if (!out) { throw Error("read " + name, ErrorCode::io, "it could not be copied to a temporary file"); }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) {
      throw Error(name, ErrorCode::bad_input, "there are no experiments in this database");
    }
    if (error.code() != ErrorCode::bad_input) { throw; }
    throw Error(name, ErrorCode::bad_input, "its experiments cannot be read: " + error.message());
  }
  return records;
}

/// A file to import.
struct UnitFile {
  std::filesystem::path path;
  std::int64_t tenant_index = 0;  ///< whose log it is, where each tenant of a trial has one
};

/// Files that are imported together, with what their place says: one, or the tenants of one trial.
struct ImportUnit {
  std::vector<UnitFile> files;
  ImportSettings settings;
  bool found_in_folder = false;  ///< a file of an unknown format may be passed over
};

namespace fs = std::filesystem;

/// Parts of "PAIR" or "PAIR.TENANT", a file's name without its extensions ".log" or ".log.gz".
struct FileStem {
  std::optional<std::int64_t> pair, tenant;
};

FileStem read_stem(const fs::path& file) {
  const bool is_packed_name = file.extension() == ".gz" || file.extension() == ".zst";
  const auto parts = split((is_packed_name ? file.stem() : file).stem().string(), '.');
  FileStem stem{parse_integer(parts[0]), std::nullopt};
  const auto tenant = stem.pair && parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
  constexpr std::int64_t most_tenants = 1'000'000;
  if (tenant && *tenant >= 0 && *tenant < most_tenants) { stem.tenant = tenant; }
  return stem;
}

/// ARM/CASE/PAIR.log below the folder, where CASE may be several folders: what it says and the user did not.
ImportSettings settings_by_place(ImportSettings settings, const fs::path& relative, const fs::path& folder) {
  const fs::path name = fs::absolute(folder).lexically_normal();
  if (settings.experiment.empty()) {
    settings.experiment = (name.has_filename() ? name : name.parent_path()).filename();
  }
  const std::vector<fs::path> parts(relative.begin(), relative.end());
  if (parts.size() >= 2 && settings.arm.empty()) { settings.arm = parts.front(); }
  if (parts.size() >= 3 && settings.case_name.empty()) {
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      settings.case_name += (i > 1 ? "/" : "") + parts[i].string();
    }
  }
  if (!settings.pair) { settings.pair = read_stem(relative).pair; }
  // A case of several folders ends in the number of nodes: ARM/weak/4/PAIR.log.
  if (!settings.nodes && parts.size() >= 4) {
    const auto nodes = parse_integer(parts[parts.size() - 2].string());
    if (nodes && *nodes >= 1) { settings.nodes = nodes; }
  }
  return settings;
}

/// Every file below the folder, sorted.
std::vector<fs::path> files_below(const fs::path& folder) {
  constexpr std::size_t most_files = 100'000;
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code leads_nowhere;  // a link to itself, say, is no file
    if (entry->is_regular_file(leads_nowhere)) { files.push_back(entry->path()); }
    if (files.size() > most_files) {
      throw Error(folder.string(), ErrorCode::bad_input,
                  fmt::format("there are more than {} files in this folder", most_files));
    }
  }
  if (failure) {
    throw Error(folder.string(), ErrorCode::bad_input, "it cannot be read: " + failure.message());
  }
  std::ranges::sort(files);
  return files;
}

/// Every file below the folder, sorted, tenants of one trial together; of an unpacked bundle its records.
std::vector<ImportUnit> units_of_folder(const fs::path& folder, const ImportSettings& settings) {
  if (is_unpacked_bundle(folder)) {
    verify_unpacked_bundle(folder);
    return {{{{folder / records_name}}, settings, false}};
  }
  std::vector<ImportUnit> units;
  std::map<fs::path, std::size_t> by_trial;
  for (const auto& file : files_below(folder)) {
    const auto relative = file.lexically_relative(folder);
    const auto stem = read_stem(file);
    const UnitFile one{file, stem.tenant.value_or(0)};
    if (stem.tenant) {
      const auto trial = file.parent_path() / std::to_string(*stem.pair);
      const auto [found, fresh] = by_trial.try_emplace(trial, units.size());
      if (!fresh) {
        units[found->second].files.push_back(one);
        continue;
      }
    }
    units.push_back({{one}, settings_by_place(settings, relative, folder), true});
  }
  const auto by_tenant = [](const UnitFile& a, const UnitFile& b) { return a.tenant_index < b.tenant_index; };
  for (auto& unit : units) { std::ranges::stable_sort(unit.files, by_tenant); }
  return units;
}

/// Units to import of a file or "-", or of a folder: every file below it, sorted, tenants of one trial
/// together; of an unpacked bundle its records.
std::vector<ImportUnit> units_of(const std::string& path, const ImportSettings& settings) {
  std::error_code failure;
  if (path == "-" || !fs::is_directory(path, failure)) { return {{{{path}}, settings, false}}; }
  auto found = units_of_folder(path, settings);
  if (found.empty()) { throw Error(path, ErrorCode::bad_input, "there is no file in this folder"); }
  return found;
}

namespace fs = std::filesystem;

[[noreturn]] void refuse_file(const std::string& name, int error) {
  if (error == ENOENT) { throw Error(name, ErrorCode::bad_input, "no such file"); }
  const char* reason = error == EINVAL      ? "it is not a regular file"
                       : error == EISDIR    ? "it is not a regular file"
                       : error == ETIMEDOUT ? "it is a pipe, and nothing comes through it"
                                            : "you may not read it";
  throw Error(name + ":1:1", ErrorCode::bad_input, fmt::format("the file cannot be read: {}", reason));
}

/// A file to import, which is opened as often as it is read: a folder may have more files than may be open
/// at a time. What can be read only once (standard input, a pipe) or is packed becomes a file of its own.
/// What is packed is unpacked for each look at it (but once if it came through a pipe), for all of a folder
/// might not fit in temporary files.
class Source {
 public:
  Source(const fs::path& path, std::istream& standard_input)
      : name_(path == "-" ? "<stdin>" : path.string()), path_(path) {
    std::error_code failure;
    if (path == "-") {
      copy(standard_input);
    } else if (fs::is_fifo(path, failure)) {
      copy_pipe();
    }
    if (!fs::is_regular_file(path_, failure)) { return; }
    if (is_packed(path_)) {
      if (!text_) { packed_ = path_; }
      open_packed(path_, name_);
    }
    if (is_database(path_)) {
      if (text_) {  // SQLite opens no file without a name
        throw Error(name_, ErrorCode::bad_input,
                    "a results database is read from its own file, neither packed nor through a pipe; import "
                    "that file");
      }
      text_ = records_of_database(path_);
      path_ = text_->path();
    }
  }

  const std::string& name() const { return name_; }
  /// The file to open, until it is let go of.
  const fs::path& path() {
    if (!packed_.empty() && !text_) { open_packed(packed_, packed_.string()); }
    return path_;
  }
  /// Closes the file and removes what was unpacked of it.
  void let_go() {
    if (!packed_.empty()) { text_.reset(); }
  }
  /// An archive, and none of evidence.
  bool is_foreign_archive() const { return is_foreign_archive_; }

 private:
  void copy(std::istream& in) {
    text_.emplace();
    text_->copy(in, name_);
    path_ = text_->path();
  }

  void copy_pipe() {
    const auto pipe = open_to_read(path_, Readable::regular_file_or_pipe);
    if (!pipe) { refuse_file(name_, errno); }
    text_.emplace();
    text_->copy(pipe.get(), name_);
    path_ = text_->path();
  }

  void open_packed(const fs::path& file, const std::string& name) {
    auto unpacked = unpack(file, name);
    is_foreign_archive_ = !unpacked;
    if (!unpacked) {
      packed_.clear();
      return;
    }
    text_ = std::move(unpacked->text);
    name_ = unpacked->name;
    path_ = text_->path();
  }

  std::string name_;
  fs::path path_;
  fs::path packed_;  ///< what is unpacked to `path_` again and again; empty: nothing is
  std::optional<TemporaryText> text_;
  bool is_foreign_archive_ = false;
};

/// A source that is being read.
struct OpenSource {
  explicit OpenSource(Source& source) : lines(stream, source.name()) {
    stream = open_stream(source.path());
    if (!stream.is_open()) { refuse_file(source.name(), errno); }
  }

  std::ifstream stream;
  LineReader lines;
};

/// A unit that has been looked at, outside of the transaction: this may take as long as a pipe's writer
/// likes.
struct InspectedUnit {
  ImportUnit unit;
  std::vector<Source> sources;
  std::vector<std::string> hashes;   ///< of the sources; none if the format is not known
  std::optional<FileFormat> format;  ///< nothing: to be passed over
};

/// The SHA-256 of all bytes from here to the end.
std::string hash_of(std::istream& in, const std::string& name) {
  Sha256 hash;
  std::vector<char> piece(std::size_t{1} << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    hash.update({piece.data(), static_cast<std::size_t>(in.gcount())});
  }
  if (in.bad()) { throw Error("read " + name, ErrorCode::io, "reading failed before its end"); }
  return hash.finish();
}

/// Refuses bytes that were imported before.
void refuse_known(const std::optional<Store::ImportedFile>& earlier, const LineReader& lines) {
  if (earlier) {
    lines.refuse(fmt::format(
        "these very bytes were imported before, on {} from {}; nothing was imported now (to read them "
        "in another way give another file with --db)",
        earlier->imported_at, excerpt(earlier->name)));
  }
}

/// Refuses options that the file's format does not read: they would have no effect.
void refuse_idle_options(FileFormat format, const LineReader& lines, const ImportSettings& settings) {
  const auto idle = join(idle_options(settings, {format}), ", ");
  if (idle.empty()) { return; }
  if (format == FileFormat::jsonl) {
    lines.refuse("exchange records and databases say all about themselves: import them without {}", idle);
  }
  lines.refuse("the format {} does not take {}; leave out what it does not take (it takes {})",
               format_name(format), idle, join(options_of(format), ", "));
}

[[noreturn]] void refuse_empty(const LineReader& lines) {
  lines.refuse("the file is empty: get a fresh copy, or leave it out");
}

/// `logs`: the unit's files.
void read_unit(FileFormat format, const std::vector<TenantLog>& logs, const ImportUnit& unit,
               RecordImporter& importer) {
  LineReader& lines = *logs.front().lines;
  for (const auto& log : logs) {
    if (is_empty(*log.lines)) { refuse_empty(*log.lines); }
  }
  if (format == FileFormat::jsonl) { require_json(lines); }
  if (!unit.found_in_folder) { refuse_idle_options(format, lines, unit.settings); }
  for (const auto& log : logs) {
    if (const auto other = find_other_log(*log.lines, format)) {
      importer.note(fmt::format(
          "from line {} on there is output of {} too, which is left out: give it as a file of its own",
          other->line, format_name(other->format)));
    }
  }
  switch (format) {
    case FileFormat::jsonl:
      return read_jsonl(lines, importer);
    case FileFormat::csv:
      return read_csv(lines, unit.settings, importer);
    case FileFormat::tf_cnn_benchmarks:
      return read_tf_cnn(logs, unit.settings, importer);
    case FileFormat::nccl_tests:
      return read_nccl_tests(lines, unit.settings, importer);
    case FileFormat::superbench:
      return read_superbench(lines, unit.settings, importer);
    case FileFormat::dllogger:
      return read_dllogger(lines, unit.settings, importer);
    case FileFormat::torchvision:
      return read_torchvision(lines, unit.settings, importer);
    case FileFormat::mlperf:
      return read_mlperf(lines, unit.settings, importer);
    case FileFormat::nvbandwidth:
      return read_nvbandwidth(lines, unit.settings, importer);
    case FileFormat::perfkit:
      return read_perfkit(lines, unit.settings, importer);
    case FileFormat::reframe:
      return read_reframe(lines, unit.settings, importer);
    case FileFormat::horovod:
      return read_horovod(lines, unit.settings, importer);
  }
}

/// Says of a file of no format what it may be.
[[noreturn]] void refuse_unknown(LineReader& lines) {
  if (is_empty(lines)) { refuse_empty(lines); }
  const auto formats = join(format_names(), ", ");
  if (is_json(lines)) {
    lines.refuse("this is JSON of no format that import reads (give --format: " + formats + ")");
  }
  refuse_disguised(lines);
  lines.rewind();
  lines.refuse("this looks like no format that import reads (give --format: " + formats +
               "; or --map COLUMN=KEY for a CSV table)");
}

/// Absent if no format is known and the file may be passed over.
std::optional<FileFormat> format_of(LineReader& lines, const ImportUnit& unit) {
  if (unit.settings.format) { return unit.settings.format; }
  if (!unit.settings.columns.empty()) { return FileFormat::csv; }
  std::optional<FileFormat> format;
  try {
    format = recognise_format(lines);
  } catch (const Error& error) {
    // Pictures, archives and the like lie beside results: what is no text is of no format either.
    if (!unit.found_in_folder || error.code() != ErrorCode::bad_input) { throw; }
  }
  if (!format && !unit.found_in_folder) { refuse_unknown(lines); }
  return format;
}

/// Adds the unit, or its files one by one where they do not belong together.
void inspect(const ImportUnit& unit, std::istream& standard_input, std::vector<InspectedUnit>& inspected) {
  InspectedUnit one{unit, {}, {}, {}};
  for (const auto& file : unit.files) { one.sources.emplace_back(file.path, standard_input); }
  auto& leader = one.sources.front();
  if (!leader.is_foreign_archive()) {
    OpenSource first(leader);
    one.format = format_of(first.lines, unit);
  } else if (!unit.found_in_folder) {
    throw Error(leader.name(), ErrorCode::bad_input,
                "this archive is not an evidence bundle of virtrain export --bundle; unpack it and import "
                "the folder");
  }
  if (one.format != FileFormat::tf_cnn_benchmarks && unit.files.size() > 1) {
    // Only logs of tenants belong together; other files merely have such names.
    for (const auto& file : unit.files) {
      inspect({{file}, unit.settings, unit.found_in_folder}, standard_input, inspected);
    }
    return;
  }
  for (auto& source : one.sources) {
    if (one.format) {
      OpenSource open(source);
      one.hashes.push_back(hash_of(open.stream, source.name()));
    }
    source.let_go();
  }
  inspected.push_back(std::move(one));
}

/// Takes what it reads, so that nothing of it stays open.
std::vector<FileReport> import_unit(Store& store, InspectedUnit inspected) {
  std::vector<FileReport> reports;
  for (const auto& source : inspected.sources) { reports.push_back({source.name(), inspected.format, {}}); }
  if (!inspected.format) { return reports; }
  std::deque<OpenSource> sources;  // they stay where they are
  std::vector<TenantLog> logs;
  std::vector<std::optional<Store::ImportedFile>> remembered;
  for (std::size_t i = 0; i < inspected.sources.size(); ++i) {
    auto& lines = sources.emplace_back(inspected.sources[i]).lines;
    logs.push_back({&lines, inspected.unit.files[i].tenant_index});
    remembered.push_back(store.remember_import(inspected.hashes[i], lines.name(), iso8601(wall_ns())));
  }
  if (std::ranges::all_of(remembered, [](const auto& earlier) { return earlier.has_value(); })) {
    for (std::size_t i = 0; i < reports.size(); ++i) { reports[i].earlier = remembered[i]; }
    return reports;
  }
  for (std::size_t i = 0; i < remembered.size(); ++i) { refuse_known(remembered[i], *logs[i].lines); }
  const bool is_run = inspected.format != FileFormat::jsonl && inspected.format != FileFormat::csv;
  RecordImporter importer(store, is_run);
  read_unit(*inspected.format, logs, inspected.unit, importer);
  reports.front().report = importer.report();
  return reports;
}

/// Refusals, file by file.
struct Refusals {
  std::vector<std::string> shown;
  std::size_t more = 0;
};

/// Does the work. What input is refused for is kept: the others are looked at too, so that all that is wrong
/// is said at once.
void collect_refusal(Refusals& refusals, const std::function<void()>& work) {
  constexpr std::size_t most_shown = 100;
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    if (refusals.shown.size() < most_shown) {
      refusals.shown.push_back(error.what());
    } else {
      ++refusals.more;
    }
  }
}

/// Throws what was refused, or that there was nothing to import; returns if neither.
void refuse_all(Refusals& refusals, const std::vector<FileReport>& reports,
                const std::vector<std::string>& paths) {
  const bool none_known =
      std::ranges::none_of(reports, [](const auto& one) { return one.format.has_value(); });
  auto& lines = refusals.shown;
  if (lines.empty() && none_known) {
    lines.push_back(join(paths, ", ") + ": no file in it is of a format that import reads");
  }
  if (lines.empty()) { return; }
  const bool several = reports.size() + lines.size() > 1;
  if (refusals.more > 0) { lines.push_back("and " + counted(refusals.more, "more file")); }
  if (several) { lines.push_back("nothing was imported"); }
  throw Error("import", ErrorCode::bad_input, join(lines, "\n"));
}

/// Refuses options that no file of a folder takes. Each takes its own: logs a case, outputs of nccl-tests
/// none.
void refuse_options_of_none(const ImportSettings& settings, const std::vector<FileReport>& reports,
                            const std::vector<std::string>& paths) {
  std::vector<FileFormat> formats;
  for (const auto& report : reports) {
    if (report.format) { formats.push_back(*report.format); }
  }
  const auto idle = idle_options(settings, formats);
  if (formats.empty() || idle.empty()) { return; }
  throw Error(join(paths, ", "), ErrorCode::bad_input,
              fmt::format("no file in it takes {}; leave out what none takes", join(idle, ", ")));
}

/// Each file, or the tenants' files of one trial, whole or not at all; what failed is in its report.
std::vector<FileReport> import_what_is_good(Store& store, const std::vector<std::string>& paths,
                                            const ImportSettings& settings, std::istream& standard_input) {
  std::vector<FileReport> reports;
  Refusals refusals;
  const auto attempt = [&](std::string name, const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_input) { throw; }
      reports.push_back({std::move(name), std::nullopt, {}, error.what()});
      collect_refusal(refusals, [&] { throw error; });
    }
  };
  const auto import_one = [&](const ImportUnit& unit) {
    std::vector<InspectedUnit> inspected;
    inspect(unit, standard_input, inspected);
    for (auto& one : inspected) {
      attempt(one.sources.front().name(), [&] {
        std::vector<FileReport> more;
        store.transaction("import", [&] { more = import_unit(store, std::move(one)); });
        reports.insert(reports.end(), more.begin(), more.end());
      });
    }
  };
  for (const auto& path : paths) {
    std::vector<ImportUnit> units;
    attempt(path, [&] { units = units_of(path, settings); });
    for (const auto& unit : units) {
      attempt(unit.files.front().path.string(), [&] { import_one(unit); });
    }
  }
  attempt(join(paths, ", "), [&] { refuse_options_of_none(settings, reports, paths); });
  const bool some = std::ranges::any_of(reports, [](const auto& one) { return one.format.has_value(); });
  if (!some) { refuse_all(refusals, reports, paths); }
  return reports;
}

}  // namespace

std::vector<FileReport> import_paths(Store& store, const std::vector<std::string>& paths,
                                     const ImportSettings& settings, std::istream& standard_input) {
  if (settings.skip_failed) { return import_what_is_good(store, paths, settings, standard_input); }
  Refusals refusals;
  std::vector<InspectedUnit> inspected;
  for (const auto& path : paths) {
    std::vector<ImportUnit> units;
    collect_refusal(refusals, [&] { units = units_of(path, settings); });
    for (const auto& unit : units) {
      collect_refusal(refusals, [&] { inspect(unit, standard_input, inspected); });
    }
  }
  // From here on no other process can write to the database, so nothing is waited for any more.
  std::vector<FileReport> reports;
  store.transaction("import", [&] {
    for (auto& unit : inspected) {
      collect_refusal(refusals, [&] {
        const auto more = import_unit(store, std::move(unit));
        reports.insert(reports.end(), more.begin(), more.end());
      });
    }
    if (refusals.shown.empty()) {
      collect_refusal(refusals, [&] { refuse_options_of_none(settings, reports, paths); });
    }
    refuse_all(refusals, reports, paths);
  });
  return reports;
}

ImportReport copy_records(Store& store, std::istream& in, const std::string& name) {
  RecordImporter importer(store, false);
  LineReader lines(in, name);
  store.transaction("import " + name, [&] { read_jsonl(lines, importer); });
  return importer.report();
}

ImportReport import_jsonl(Store& store, std::istream& in, const std::string& name) {
  RecordImporter importer(store, false);
  LineReader lines(in, name);
  const auto hash = hash_of(in, name);
  lines.rewind();
  store.transaction("import " + name, [&] {
    refuse_known(store.remember_import(hash, lines.name(), iso8601(wall_ns())), lines);
    read_jsonl(lines, importer);
  });
  return importer.report();
}

}  // namespace virtrain::results
