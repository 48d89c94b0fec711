#include "results/exchange/database_file.h"

#include <array>
#include <fstream>
#include <string_view>

#include "common/error.h"
#include "results/exchange/exchange.h"
#include "results/exchange/files/work_folder.h"
#include "results/store/store.h"

namespace virtrain::results {
namespace {

/// Words on the copy, which is gone when somebody reads them, as words on the file.
std::string without_copy(std::string words, const std::string& copy, const std::string& name) {
  for (auto at = words.find(copy); at != words.npos; at = words.find(copy, at + name.size())) {
    words.replace(at, copy.size(), name);
  }
  return words;
}

}  // namespace

bool is_database(const std::filesystem::path& file) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::array<char, magic.size()> start{};
  std::ifstream in(file, std::ios::binary);
  return in.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == magic;
}

TemporaryText records_of_database(const std::filesystem::path& file, const std::string& name) {
  const WorkFolder folder(std::filesystem::temp_directory_path() / "virtrain-import");
  const auto copy = folder.path / "copy.db";
  TemporaryText records;
  try {
    copy_database(file, copy);
    const Store store(copy, Store::Mode::open);
    std::ofstream out(records.path(), std::ios::binary);
    export_jsonl(store, {.all = true}, out);
    out.close();
    if (!out) { throw Error("read " + name, ErrorCode::io, "it could not be copied to a temporary file"); }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    throw Error(name, ErrorCode::bad_input,
                "its experiments cannot be read: " + without_copy(error.message(), copy.string(), name));
  }
  return records;
}

}  // namespace virtrain::results
