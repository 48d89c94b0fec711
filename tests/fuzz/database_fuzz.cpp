// A damaged database: what is in it is shown, or refused with the file's name. The input is a list of damages
// to a sound one, four bytes each: where (three, modulo its size) and the byte that stands there from then
// on.
#include <cstdint>
#include <fstream>
#include <string>

#include "common/files/reading.h"
#include "results/exchange/exchange.h"
#include "tests/fuzz/use_results.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace virtrain;
using namespace virtrain::results;

std::string sound_database(const std::filesystem::path& file) {
  {
    Store store(file);
    std::ifstream records(VIRTRAIN_FUZZ_RECORDS, std::ios::binary);
    import_jsonl(store, records, "records.jsonl");
  }
  return read_file(file).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TemporaryFolder folder;
  static const std::string sound = sound_database(folder.path / "sound.db");
  constexpr std::size_t most_damages = 64;
  std::string bytes = sound;
  for (std::size_t i = 0; i + 4 <= std::min(size, 4 * most_damages); i += 4) {
    bytes[(data[i] | data[i + 1] << 8 | data[i + 2] << 16) % bytes.size()] = static_cast<char>(data[i + 3]);
  }
  const auto file = folder.path / "damaged.db";
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    const Store store(file, Store::Mode::open);
    run([&] { store.list_experiments(); });
    use(store);
  } catch (const Error& error) { check(std::string(error.what()).find(file.string()) != std::string::npos); }
  return 0;
}
