#include "results/diagnosis/read_diagnosis.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <sstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "results/exchange/exchange.h"
#include "results/exchange/readers/readers.h"
#include "results/exchange/records/line_reader.h"
#include "results/reading/reading.h"
#include "results/store/store.h"

namespace virtrain::results {
namespace {

constexpr std::size_t most_input_bytes = std::size_t{256} << 20;  // of standard input or a pipe

/// A log that is read twice: for NCCL's lines, and for figures.
struct DiagnosedLog {
  std::string name;
  std::string piped = {};  ///< all of it, where it can be read only once
  std::istringstream text = {};
  std::ifstream file = {};

  bool is_piped() const { return name == "<stdin>"; }
  std::istream& stream() { return is_piped() ? static_cast<std::istream&>(text) : file; }
};

std::string all_of(std::istream& in, const std::string& name) {
  std::string text(most_input_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_input_bytes) {
    throw Error("read " + name, ErrorCode::bad_input, "it has more than 256MiB; give it as a file");
  }
  return text;
}

DiagnosedLog open_log(const std::string& file, std::istream& standard_input) {
  DiagnosedLog log{.name = file == "-" ? "<stdin>" : file};
  if (file == "-") {
    log.piped = all_of(standard_input, log.name);
    log.text.str(log.piped);
    return log;
  }
  log.file = open_stream(file);
  if (!log.file.is_open()) {
    throw Error("read " + excerpt(file), ErrorCode::bad_input,
                errno == ENOENT ? "no such file" : "it cannot be read as a file (of pipes only - is taken)");
  }
  return log;
}

/// Settings that a log of the format has to be told, wherever it was found.
ImportSettings settings_for(FileFormat format) {
  const auto options = options_of(format);
  const auto takes = [&](const char* option) { return std::ranges::find(options, option) != options.end(); };
  ImportSettings settings;
  settings.format = format;
  if (takes("--experiment")) { settings.experiment = "diagnosis"; }
  if (takes("--arm")) { settings.arm = "diagnosed"; }
  if (takes("--case")) { settings.case_name = "any"; }
  return settings;
}

/// Figures that `import` finds in the log; none where it is no file of a known tool.
std::vector<Probe> figures_of(const DiagnosedLog& log, LineReader& lines) {
  Store store(":memory:");
  std::vector<Probe> all;
  std::istringstream piped(log.piped);
  try {
    lines.rewind();
    const auto format = recognise_format(lines);
    if (!format) { return all; }
    import_paths(store, {log.is_piped() ? "-" : log.name}, settings_for(*format), piped);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input && error.code() != ErrorCode::not_found) { throw; }
    return all;
  }
  for (const auto& one : store.list_experiments()) {
    auto probes = store.probes(one.experiment.id);
    all.insert(all.end(), std::make_move_iterator(probes.begin()), std::make_move_iterator(probes.end()));
  }
  return all;
}

/// Gives the job all lines of the log, and the side the listings that they make up; false where nothing is in
/// it, or it is not a text.
bool take_lines(LineReader& lines, NcclLogReader& job, DiagnosedSide& side) {
  bool has_any = false;
  TopoReader topology;
  PciReader functions;
  std::string xml;
  try {
    lines.rewind();
    while (lines.next()) {
      has_any = job.take(lines.line()) || has_any;
      topology.take(lines.line());
      functions.take(lines.line());
      if (xml.size() <= most_domain_bytes) { xml.append(lines.line()) += '\n'; }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    return has_any;
  }
  const auto take = [&](auto found, auto& all) {
    if (!found) { return; }
    all.push_back(std::move(*found));
    has_any = true;
  };
  take(topology.finish(), side.topologies);
  take(functions.finish(), side.listings);
  if (trim(xml).starts_with('<')) { take(guest_domain_of(xml), side.domains); }
  return has_any;
}

/// The files that a path leads to: itself, or of a folder all regular files below it, in order.
std::vector<std::string> files_of(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t most_files = 1000;
  std::error_code failure;
  if (path == "-" || !fs::is_directory(path, failure)) { return {path}; }
  std::vector<std::string> files;
  const fs::recursive_directory_iterator folder(path, fs::directory_options::skip_permission_denied, failure);
  for (auto entry = begin(folder); !failure && entry != end(folder); entry.increment(failure)) {
    if (entry->is_symlink(failure) || !entry->is_regular_file(failure)) { continue; }
    files.push_back(entry->path().string());
    if (files.size() > most_files) {
      throw Error("read " + excerpt(path), ErrorCode::bad_input,
                  "it has more than 1,000 files; name those of the job");
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

DiagnosedSide read_side(const std::vector<std::string>& files, std::istream& standard_input,
                        std::vector<std::string>& skipped) {
  DiagnosedSide side;
  NcclLogReader job;
  std::vector<std::string> all;
  for (const auto& path : files) {
    auto found = files_of(path);
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  for (const auto& file : all) {
    auto log = open_log(file, standard_input);
    LineReader lines(log.stream(), excerpt(log.name));
    auto figures = figures_of(log, lines);
    const bool has_lines = take_lines(lines, job, side);
    if (!has_lines && figures.empty()) {
      skipped.push_back(excerpt(log.name));
      continue;
    }
    side.files.push_back(log.name);
    side.probes.insert(side.probes.end(), std::make_move_iterator(figures.begin()),
                       std::make_move_iterator(figures.end()));
  }
  if (side.files.empty()) {
    throw Error("diagnose " + join(skipped, ", "), ErrorCode::bad_input,
                "it has neither a line of NCCL (NCCL_DEBUG=INFO) nor a figure of a known tool (nccl-tests, "
                "nvbandwidth, "
                "and what else virtrain import takes) nor what nvidia-smi topo -m, lspci -vvv or virsh "
                "dumpxml print");
  }
  side.nccl = job.finish();
  return side;
}

void read_database(const std::filesystem::path& file, DiagnosedSide& side,
                   std::optional<DiagnosedSide>& baseline) {
  const Store store(file, Store::Mode::open);
  const auto experiments = store.list_experiments();
  const auto newest = std::ranges::find_if(experiments.rbegin(), experiments.rend(),
                                           [](const auto& one) { return one.trials + one.probes > 0; });
  if (newest == experiments.rend()) {
    throw Error("diagnose " + excerpt(file.string()), ErrorCode::not_found, "it has no trial and no probe");
  }
  side.files.push_back(file.string());
  const auto& id = newest->experiment.id;
  for (const auto& trial : store.trials(id)) {
    if (!trial.valid) { ++side.invalid_trials[excerpt(trial.invalid_reason)]; }
  }
  for (auto& probe : store.probes(id)) {
    const bool is_metal = probe.arm.empty() || probe.arm == "bare_metal";
    if (is_metal && !baseline) { baseline.emplace(); }
    (is_metal ? baseline->probes : side.probes).push_back(std::move(probe));
  }
  if (newest->trials == 0) { return; }
  CompareRequest request;
  request.selection.experiments = {id};
  request.explain = true;
  try {
    side.cases = compare(store, request);
  } catch (const Error& error) {  // one arm only, or no trial that counts
    if (error.code() != ErrorCode::not_found) { throw; }
  }
}

}  // namespace virtrain::results
