#include "results/exchange/database_file.h"

#include <array>
#include <fstream>
#include <string_view>

#include "common/error.h"
#include "results/exchange/exchange.h"
#include "results/exchange/files/work_folder.h"
#include "results/store/store.h"

namespace virtrain::results {
bool is_database(const std::filesystem::path& file) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::array<char, magic.size()> start{};
  std::ifstream in(file, std::ios::binary);
  return in.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == magic;
}

TemporaryText records_of_database(const std::filesystem::path& file, const std::string& name) {
  const WorkFolder folder(std::filesystem::temp_directory_path() / "virtrain-import");
  TemporaryText records;
  try {
    const auto copy = folder.path / "copy.db";
    copy_database(file, copy);
    const Store store(copy, Store::Mode::open);
    std::ofstream out(records.path(), std::ios::binary);
    export_jsonl(store, {.all = true}, out);
    out.close();
    if (!out) { throw Error("read " + name, ErrorCode::io, "it could not be copied to a temporary file"); }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    throw Error(name, ErrorCode::bad_input, std::string("its experiments cannot be read: ") + error.what());
  }
  return records;
}

}  // namespace virtrain::results
