#include "harness/cli/shipped_scenarios.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/model/workload.h"
#include "common/text/text.h"
#include "harness/cli/search_path.h"
#include "harness/scenario/decode/decode.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* ending = ".yaml";

/// Beside an installed program, or in the source tree that a build lies in; empty: in neither.
fs::path shipped_folder() {
  const auto folder = this_program().parent_path();
  std::error_code unseen;
  for (const char* place : {"../share/virtrain/scenarios", "../scenarios"}) {
    auto there = (folder / place).lexically_normal();
    if (fs::exists(there / "quickstart.yaml", unseen)) { return there; }
  }
  return {};
}

}  // namespace

std::vector<ShippedScenario> shipped_scenarios() {
  std::vector<ShippedScenario> all;
  const auto folder = shipped_folder();
  if (folder.empty()) { return all; }
  for (const auto& file : entries_of(folder)) {
    if (file.extension() != ending) { continue; }
    const auto scenario = load_scenario(file.string(), true);
    const auto backend = scenario.cases.at(0).tenants.at(0).workload.backend;
    all.push_back({file.stem().string(), scenario.description, to_string(backend), file.string()});
  }
  return all;
}

std::string scenario_path(const std::string& given) {
  std::error_code unseen;
  const bool is_word = given != "-" && given.find('/') == std::string::npos;
  if (!is_word || (given.ends_with(ending) && fs::exists(given, unseen))) { return given; }
  const auto folder = shipped_folder();
  if (folder.empty()) { return given; }
  const auto file = folder / (given.ends_with(ending) ? given : given + ending);
  if (fs::exists(file, unseen)) { return file.string(); }
  if (fs::exists(given, unseen)) { return given; }
  std::vector<std::string> names;
  for (const auto& one : entries_of(folder)) {
    if (one.extension() == ending) { names.push_back(one.stem().string()); }
  }
  const auto near = nearest_word(given, names);
  if (!near) { return given; }
  throw Error("read " + given, ErrorCode::bad_input,
              fmt::format("{}: no such file; did you mean {}? (virtrain scenarios lists those that ship)",
                          given, *near));
}

}  // namespace virtrain::harness
