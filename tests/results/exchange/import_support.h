#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/files/reading.h"
#include "common/text/printable.h"
#include "results/exchange/exchange.h"
#include "tests/results/support.h"

namespace virtrain::results {

inline const std::filesystem::path exchange_data = VIRTRAIN_SOURCE_DIR "/tests/results/exchange/data";

inline std::string text_of(const std::string& file) {
  return read_file(exchange_data / file).value();
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// What files of trials are asked for that do not say it themselves, and what files of probes are.
inline const ImportSettings of_trials{.experiment = "e", .case_name = "c", .arm = "vm"};
inline const ImportSettings of_probes{.experiment = "e", .arm = "vm"};

inline std::vector<FileReport> import_these(Store& store, const std::vector<std::string>& paths,
                                            const ImportSettings& settings = {}) {
  std::istringstream nothing;
  return import_paths(store, paths, settings, nothing);
}

inline std::string exported(const Store& store) {
  std::ostringstream out;
  export_jsonl(store, {.all = true}, out);
  return out.str();
}

/// A database with what a file of this name and text brought.
struct ImportedText {
  ImportedText(const std::string& name, const std::string& text, const ImportSettings& settings = {}) {
    std::ofstream(folder.path / name, std::ios::binary) << text;
    report = import_these(store, {folder.path / name}, settings).at(0);
  }

  std::vector<Trial> trials() const { return store.trials("e"); }
  std::vector<Probe> probes() const { return store.probes("e"); }

  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
  FileReport report;
};

/// Why the text is refused, from its file's name on; checks that the words are short and safe to show.
inline std::string refusal_of(const std::string& name, const std::string& text,
                              const ImportSettings& settings = {}) {
  const auto error = error_of([&] { ImportedText(name, text, settings); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK(error.message().size() < 4000);
  CHECK(printable(error.message()) == error.message());
  const auto at = error.message().find(name);
  CHECK(at != std::string::npos);
  return error.message().substr(std::min(at, error.message().size()));
}

/// What files of trials are asked for.
inline ImportSettings asked() {
  return {.experiment = "e", .case_name = "c", .arm = "vm", .nodes = 1, .gpus_per_node = 1};
}

inline ImportedText others(const std::string& file, const ImportSettings& settings) {
  return {file, text_of("others/" + file), settings};
}

/// Why the file is refused with a part of it changed.
inline std::string changed(const std::string& file, const std::string& from, const std::string& to) {
  const bool has_trials = file != "all_reduce.json" && file != "nvbandwidth.json";
  return refusal_of(file, replaced(text_of("others/" + file), from, to), has_trials ? asked() : of_probes);
}

}  // namespace virtrain::results
