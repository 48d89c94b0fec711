#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <istream>
#include <map>
#include <memory>

#include "common/error.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/time.h"
#include "common/units.h"
#include "results/exchange/readers.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

/// Files that are imported together, with what their place says: one, or the tenants of one trial.
struct ImportUnit {
  std::vector<fs::path> files;
  ImportSettings settings;
  bool found_in_folder = false;  ///< a file of an unknown format may be passed over
};

/// What comes of "PAIR" or "PAIR.TENANT", a file's name without its last extension.
struct FileStem {
  std::optional<std::int64_t> pair;
  bool is_tenant = false;
};

FileStem read_stem(const fs::path& file) {
  const auto parts = split(file.stem().string(), '.');
  FileStem stem{parse_integer(parts[0]), false};
  stem.is_tenant = stem.pair && parts.size() == 2 && parse_integer(parts[1]).has_value();
  return stem;
}

/// ARM/CASE/PAIR.log below the folder, where CASE may be several folders: what it says and the user did not.
ImportSettings settings_by_place(ImportSettings settings, const fs::path& relative, const fs::path& folder) {
  const fs::path name = fs::absolute(folder).lexically_normal();
  if (settings.experiment.empty())
    settings.experiment = (name.has_filename() ? name : name.parent_path()).filename();
  const std::vector<fs::path> parts(relative.begin(), relative.end());
  if (parts.size() >= 2 && settings.arm.empty()) settings.arm = parts.front();
  if (parts.size() >= 3 && settings.case_name.empty()) {
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      settings.case_name += (i > 1 ? "/" : "") + parts[i].string();
    }
  }
  if (!settings.pair) settings.pair = read_stem(relative).pair;
  const auto family_end = settings.case_name.rfind('/');
  if (!settings.nodes && family_end != std::string::npos) {
    settings.nodes = parse_integer(std::string_view(settings.case_name).substr(family_end + 1));
  }
  return settings;
}

/// Every file below the folder, sorted, tenants of one trial together.
std::vector<ImportUnit> units_of_folder(const fs::path& folder, const ImportSettings& settings) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<ImportUnit> units;
  std::map<fs::path, std::size_t> by_trial;
  for (const auto& file : files) {
    const auto relative = file.lexically_relative(folder);
    const auto stem = read_stem(file);
    if (stem.is_tenant) {
      const auto trial = file.parent_path() / std::to_string(*stem.pair);
      const auto [found, fresh] = by_trial.try_emplace(trial, units.size());
      if (!fresh) {
        units[found->second].files.push_back(file);
        continue;
      }
    }
    units.push_back({{file}, settings_by_place(settings, relative, folder), true});
  }
  return units;
}

std::vector<ImportUnit> units_of(const std::vector<std::string>& paths, const ImportSettings& settings) {
  std::vector<ImportUnit> units;
  for (const auto& path : paths) {
    std::error_code failure;
    if (path != "-" && fs::is_directory(path, failure)) {
      const auto found = units_of_folder(path, settings);
      if (found.empty()) throw Error(path, ErrorCode::bad_input, "there is no file in this folder");
      units.insert(units.end(), found.begin(), found.end());
    } else {
      units.push_back({{path}, settings, false});
    }
  }
  return units;
}

/// An open file. What can be read only once (standard input, a pipe) is first copied to a file of its own.
class Source {
 public:
  Source(const fs::path& path, std::istream& standard_input)
      : name_(path == "-" ? "<stdin>" : path.string()) {
    std::error_code failure;
    if (path == "-") {
      copy(standard_input);
    } else if (fs::is_fifo(path, failure)) {
      std::ifstream pipe(path, std::ios::binary);
      copy(pipe);
    } else if (fs::is_regular_file(path, failure)) {
      stream_.open(path, std::ios::in | std::ios::binary);
    }
    if (!stream_.is_open()) throw Error(name_ + ":1:1", ErrorCode::bad_input, "the file cannot be read");
    lines_.emplace(stream_, name_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::istream& stream() { return stream_; }
  LineReader& lines() { return *lines_; }

 private:
  void copy(std::istream& in) {
    std::FILE* file = std::tmpfile();
    if (file == nullptr) throw errno_error("make a temporary file", errno);
    stream_.open(fmt::format("/proc/self/fd/{}", ::fileno(file)),
                 std::ios::in | std::ios::out | std::ios::binary);
    std::fclose(file);
    if (in.peek() != std::char_traits<char>::eof() && !(stream_ << in.rdbuf())) {
      throw Error("read " + name_, ErrorCode::io, "it could not be copied to a temporary file");
    }
    stream_.seekg(0);
  }

  std::string name_;
  std::fstream stream_;
  std::optional<LineReader> lines_;
};

/// Refuses bytes that were imported before.
void remember(Store& store, std::istream& in, LineReader& lines) {
  Sha256 hash;
  std::vector<char> piece(std::size_t{1} << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    hash.update({piece.data(), static_cast<std::size_t>(in.gcount())});
  }
  if (in.bad()) throw Error("read " + lines.name(), ErrorCode::io, "reading failed before its end");
  lines.rewind();
  if (!store.remember_import(hash.finish(), lines.name(), iso8601(wall_ns()))) {
    lines.refuse("these very bytes were imported before; nothing was imported now");
  }
}

void refuse_idle_settings(const LineReader& lines, const ImportSettings& settings) {
  const bool says_something = !settings.experiment.empty() || !settings.scenario.empty() ||
                              !settings.case_name.empty() || !settings.arm.empty() || settings.nodes;
  if (says_something)
    lines.refuse("exchange records say all about themselves; give this file no --experiment, --arm, …");
}

void read_unit(FileFormat format, std::vector<LineReader*> files, const ImportUnit& unit,
               RecordImporter& importer) {
  LineReader& lines = *files.front();
  switch (format) {
    case FileFormat::jsonl:
      if (!unit.found_in_folder) refuse_idle_settings(lines, unit.settings);
      return read_jsonl(lines, importer);
    case FileFormat::csv:
      return read_csv(lines, unit.settings, importer);
    case FileFormat::tf_cnn_benchmarks:
      return read_tf_cnn(std::move(files), unit.settings, importer);
    case FileFormat::nccl_tests:
      return read_nccl_tests(lines, unit.settings, importer);
    case FileFormat::superbench:
      return read_superbench(lines, unit.settings, importer);
  }
}

/// Nothing if no format is known and the file may be passed over.
std::optional<FileFormat> format_of(LineReader& lines, const ImportUnit& unit) {
  if (unit.settings.format) return unit.settings.format;
  auto format = recognise_format(lines);
  if (!format && !unit.found_in_folder) {
    lines.refuse(
        "this looks like no format that import reads (give --format: jsonl, csv, tf_cnn_benchmarks, "
        "nccl-tests or "
        "superbench)");
  }
  return format;
}

std::vector<FileReport> import_unit(Store& store, const ImportUnit& unit, std::istream& standard_input) {
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<LineReader*> files;
  for (const auto& file : unit.files) {
    files.push_back(&sources.emplace_back(std::make_unique<Source>(file, standard_input))->lines());
  }
  const auto format = format_of(*files.front(), unit);
  std::vector<FileReport> reports;
  if (format != FileFormat::tf_cnn_benchmarks && files.size() > 1) {
    // Only logs of tenants belong together; other files merely have such names.
    for (const auto& file : unit.files) {
      reports.push_back(
          import_unit(store, {{file}, unit.settings, unit.found_in_folder}, standard_input).front());
    }
    return reports;
  }
  for (const auto* lines : files) reports.push_back({lines->name(), format, {}});
  if (!format) return reports;
  for (auto& source : sources) remember(store, source->stream(), source->lines());
  RecordImporter importer(store);
  read_unit(*format, files, unit, importer);
  reports.front().report = importer.report();
  return reports;
}

}  // namespace

const char* to_string(FileFormat format) {
  switch (format) {
    case FileFormat::jsonl:
      return "jsonl";
    case FileFormat::tf_cnn_benchmarks:
      return "tf_cnn_benchmarks";
    case FileFormat::nccl_tests:
      return "nccl-tests";
    case FileFormat::superbench:
      return "superbench";
    case FileFormat::csv:
      return "csv";
  }
  return "";
}

std::optional<FileFormat> parse_file_format(std::string_view name) {
  using enum FileFormat;
  for (const auto format : {jsonl, tf_cnn_benchmarks, nccl_tests, superbench, csv}) {
    if (name == to_string(format)) return format;
  }
  return std::nullopt;
}

std::optional<Scope> parse_scope(std::string_view name) {
  if (name == "rank") return Scope::rank;
  if (name == "tenant") return Scope::tenant;
  if (name == "trial") return Scope::trial;
  return std::nullopt;
}

std::string to_string(const ImportReport& report) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
  };
  add(report.experiments, "experiment", "experiments");
  add(report.trials, "trial", "trials");
  if (report.missing > 0) parts.back() += fmt::format(" ({} missing)", report.missing);
  add(report.samples, "sample", "samples");
  add(report.telemetry, "telemetry reading", "telemetry readings");
  add(report.events, "event", "events");
  add(report.probes, "probe", "probes");
  if (report.wrong > 0) parts.back() += fmt::format(" ({} of them with wrong data)", report.wrong);
  add(report.left_out, "other metric left out", "other metrics left out");
  return join(parts, ", ");
}

std::vector<FileReport> import_paths(Store& store, const std::vector<std::string>& paths,
                                     const ImportSettings& settings, std::istream& standard_input) {
  std::vector<FileReport> reports;
  store.transaction("import", [&] {
    std::vector<std::string> refusals;
    for (const auto& unit : units_of(paths, settings)) {
      try {
        const auto more = import_unit(store, unit, standard_input);
        reports.insert(reports.end(), more.begin(), more.end());
      } catch (const Error& error) {
        if (error.code() != ErrorCode::bad_input) throw;
        // The others are looked at too, so that all that is wrong is said at once.
        refusals.push_back(error.what());
      }
    }
    const bool none_known =
        std::none_of(reports.begin(), reports.end(), [](const auto& one) { return one.format; });
    if (refusals.empty() && none_known) {
      refusals.push_back(join(paths, ", ") + ": no file in it is of a format that import reads");
    }
    if (!refusals.empty()) {
      if (reports.size() + refusals.size() > 1) refusals.push_back("nothing was imported");
      throw Error("import", ErrorCode::bad_input, join(refusals, "\n"));
    }
  });
  return reports;
}

ImportReport copy_records(Store& store, std::istream& in, const std::string& name) {
  RecordImporter importer(store);
  LineReader lines(in, name);
  store.transaction("import " + name, [&] { read_jsonl(lines, importer); });
  return importer.report();
}

ImportReport import_jsonl(Store& store, std::istream& in, const std::string& name) {
  RecordImporter importer(store);
  LineReader lines(in, name);
  store.transaction("import " + name, [&] {
    remember(store, in, lines);
    read_jsonl(lines, importer);
  });
  return importer.report();
}

}  // namespace virtrain::results
