// A file of results: imported, compared and reported, or refused with an Error that is safe to show and
// leaves nothing.
#include <cstdint>
#include <fstream>
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
    store.transaction("fuzz", [&] {
      std::istringstream nothing;
      try {
        import_paths(store, {file}, settings, nothing);
      } catch (const Error& error) {
        const auto says = [&](const char* words) { return error.message().find(words) != std::string::npos; };
        const bool says_all = says("exchange records say all");
        if (!says_all && !says(" does not take ")) { throw; }
        import_paths(store, {file},
                     says_all ? ImportSettings{} : ImportSettings{.experiment = "e", .arm = "vm"}, nothing);
      }
      use(store);
      export_jsonl(store, {.all = true}, once);
      throw RollBack();
    });
  } catch (const RollBack&) {
    // What was accepted reads back the same.
    try {
      store.transaction("fuzz", [&] {
        std::istringstream records(once.str());
        import_jsonl(store, records, "again.jsonl");
        std::ostringstream twice;
        export_jsonl(store, {.all = true}, twice);
        check(twice.str() == once.str());
        throw RollBack();
      });
    } catch (const RollBack&) {}
  } catch (const Error& error) {
    check(error.code() == ErrorCode::bad_input);
    check(printable(error.message()) == error.message());
  }
  check(store.list_experiments().empty());
  return 0;
}
