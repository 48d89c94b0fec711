#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "common/text/text.h"
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

/// A database with what a file of this name and text brought.
struct ImportedText {
  ImportedText(const std::string& name, const std::string& text, const ImportSettings& settings) {
    std::ofstream(folder.path / name, std::ios::binary) << text;
    std::istringstream nothing;
    report = import_paths(store, {folder.path / name}, settings, nothing).at(0);
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
  return error.message().substr(std::min(error.message().find(name), error.message().size()));
}

}  // namespace virtrain::results
