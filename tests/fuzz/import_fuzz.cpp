// A file of results: imported, compared and reported, or refused with an Error that is safe to show and
// leaves nothing.
#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "common/error.h"
#include "common/text/printable.h"
#include "results/exchange/exchange.h"
#include "tests/fuzz/use_results.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace virtrain;
using namespace virtrain::results;

struct RollBack {};

/// Does the work in a transaction of its own, of which nothing stays.
void roll_back(Store& store, const std::function<void()>& work) {
  try {
    store.transaction("fuzz", [&] {
      work();
      throw RollBack();
    });
  } catch (const RollBack&) {}
}

/// The settings that the file's format takes, of those that most take; all others are for the import to
/// refuse.
ImportSettings taken_by(Store& store, const std::string& file, const ImportSettings& settings) {
  std::istringstream nothing;
  try {
    roll_back(store, [&] { import_paths(store, {file}, settings, nothing); });
  } catch (const Error& error) {
    const auto says = [&](const char* words) { return error.message().find(words) != std::string::npos; };
    if (says("exchange records say all")) { return {}; }
    if (says(" does not take ")) { return {.experiment = "e", .arm = "vm"}; }
    throw;
  }
  return settings;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TemporaryFolder folder;
  static Store store(folder.path / "results.db");
  const auto file = folder.path / "all_reduce.txt";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  // Half of the inputs say nothing about themselves but what their records say.
  ImportSettings settings{.experiment = "e", .case_name = "c", .arm = "vm", .nodes = 1};
  std::ostringstream once;
  if (size % 2 == 0) { settings.gpus_per_node = 1; }  // what logs of training without a topology need
  // Every third is read as a user says that it be, whatever it looks like, each format in its turn.
  if (const auto formats = format_names(); size % 3 == 0) {
    settings.format = parse_file_format(formats[size / 3 % formats.size()]);
    if (settings.format == FileFormat::csv) { settings.columns = {{"throughput", "images_per_second"}}; }
    if (settings.format == FileFormat::nccl_tests) { settings.collective = "all_reduce"; }
  }
  try {
    const auto taken = taken_by(store, file, settings);
    roll_back(store, [&] {
      std::istringstream nothing;
      import_paths(store, {file}, taken, nothing);
      use(store);
      export_jsonl(store, {.all = true}, once);
    });
    // What was accepted reads back the same.
    roll_back(store, [&] {
      std::istringstream records(once.str());
      import_jsonl(store, records, "again.jsonl");
      std::ostringstream twice;
      export_jsonl(store, {.all = true}, twice);
      check(twice.str() == once.str());
    });
  } catch (const Error& error) {
    check(error.code() == ErrorCode::bad_input);
    check(printable(error.message()) == error.message());
  }
  check(store.list_experiments().empty());
  return 0;
}
