#include "results/exchange/database_file.h"

#include <array>
#include <fstream>
#include <string_view>

#include "common/error.h"
#include "common/files/reading.h"
#include "results/exchange/exchange.h"
#include "results/store/store.h"

namespace virtrain::results {

bool is_database(const std::filesystem::path& file) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::array<char, magic.size()> start{};
  auto in = open_stream(file);
  return in.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == magic;
}

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

}  // namespace virtrain::results
