// What strangers could put into a database or beside it.

#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/files/reading.h"
#include "results/store/store.h"
#include "tests/results/support.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t journal_sector_bytes = 512;
constexpr std::size_t lock_byte = 0x40000000;
const std::string journal_magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) { bytes += static_cast<char>((value >> shift) & 0xff); }
  return bytes;
}

/// A journal that makes SQLite write the database's first page again, changed by `change`, and then remove
/// the file `super` (empty: none), as https://sqlite.org/fileformat2.html#the_rollback_journal has it.
template <typename Change>
std::string hot_journal(const fs::path& database, const std::string& super, Change change) {
  const auto bytes = read_file(database);
  REQUIRE(bytes);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>((*bytes)[i]));
  };
  const auto page_bytes = byte(16) << 8 | byte(17);
  auto page = bytes->substr(0, page_bytes);
  change(page);
  std::uint32_t checksum = 7;  // of no random start
  for (auto i = static_cast<int>(page_bytes) - 200; i > 0; i -= 200) {
    checksum += static_cast<unsigned char>(page[static_cast<std::size_t>(i)]);
  }
  auto journal = journal_magic + big_endian(1) + big_endian(7) +
                 big_endian(static_cast<std::uint32_t>(bytes->size()) / page_bytes) +
                 big_endian(journal_sector_bytes) + big_endian(page_bytes);
  journal.resize(journal_sector_bytes, '\0');
  journal += big_endian(1) + page + big_endian(checksum);
  if (super.empty()) { return journal; }
  journal.resize((journal.size() / journal_sector_bytes + 1) * journal_sector_bytes, '\0');
  const auto sum =
      std::accumulate(super.begin(), super.end(), std::uint32_t{0}, [](std::uint32_t total, char c) {
        return total + static_cast<std::uint32_t>(static_cast<signed char>(c));
      });
  return journal + big_endian(static_cast<std::uint32_t>(lock_byte) / page_bytes + 1) + super +
         big_endian(static_cast<std::uint32_t>(super.size())) + big_endian(sum) + journal_magic;
}

/// Sets the page's user_version, which says so when it was played back.
void make_newer(std::string& page) {
  page[63] = 99;
}

struct Planted {
  TemporaryFolder folder;
  fs::path file = folder.path / "results.db", journal = folder.path / "results.db-journal";

  Planted() {
    { const Store ours(file); }
    fs::remove(journal);
  }
  void write(const fs::path& to, const std::string& super = "") const {
    std::ofstream(to, std::ios::binary) << hot_journal(file, super, make_newer);
  }
};

}  // namespace

TEST_CASE("the journal of a killed run is played back, another user's and a link are not") {
  Planted planted;
  SECTION("our own") {
    planted.write(planted.journal);
    CHECK_THROWS_WITH(Store(planted.file), Contains("newer virtrain (schema 99"));
  }
  SECTION("a link") {
    planted.write(planted.folder.path / "elsewhere");
    fs::create_symlink(planted.folder.path / "elsewhere", planted.journal);
    CHECK_THROWS_WITH(Store(planted.file), Contains("FILE-journal") && Contains("another user's"));
  }
  SECTION("a second name of a file of ours") {
    planted.write(planted.folder.path / "elsewhere");
    fs::create_hard_link(planted.folder.path / "elsewhere", planted.journal);
    CHECK_THROWS_WITH(Store(planted.file), Contains("FILE-journal"));
  }
  SECTION("an empty one that another writer left") {
    test::need_root();
    std::ofstream(planted.journal) << "";
    REQUIRE(::chown(planted.journal.c_str(), test::stranger, test::stranger) == 0);
    Store(planted.file).add_experiment(an_experiment("e"));
  }
  SECTION("another user's, unless the database is theirs, too") {
    test::need_root();
    planted.write(planted.journal);
    REQUIRE(::chown(planted.journal.c_str(), test::stranger, test::stranger) == 0);
    CHECK(error_of([&] { Store(planted.file); }).code() == ErrorCode::host_unable);
    REQUIRE(::chown(planted.file.c_str(), test::stranger, test::stranger) == 0);
    CHECK_THROWS_WITH(Store(planted.file), Contains("newer virtrain"));
  }
}

TEST_CASE("no journal makes us remove another file") {
  const Planted planted;
  const auto victim = planted.folder.path / "victim";
  std::ofstream(victim) << "kept";
  planted.write(planted.journal, victim);
  CHECK_THROWS_AS(Store(planted.file), Error);
  CHECK(read_file(victim) == "kept");
}

TEST_CASE("a database behind another user's link is not opened") {
  test::need_root();
  const Planted planted;
  const auto link = planted.folder.path / "link.db";
  fs::create_symlink(planted.file, link);
  { const Store ours(link); }
  REQUIRE(::lchown(link.c_str(), test::stranger, test::stranger) == 0);
  const auto below = planted.folder.path / "folder";
  fs::create_directory_symlink(planted.folder.path, below);
  REQUIRE(::lchown(below.c_str(), test::stranger, test::stranger) == 0);
  CHECK_THROWS_AS(Store(below / "made" / "results.db"), Error);
  CHECK_FALSE(fs::exists(planted.folder.path / "made"));
  CHECK_THROWS_WITH(Store(link), Contains("link.db is a link that belongs to user 65534"));
}

TEST_CASE("an empty file becomes a database when something is stored, and not by being read") {
  const TemporaryFolder folder;
  const auto empty = folder.path / "empty.db";
  std::ofstream(empty) << "";
  CHECK_THROWS_WITH(Store(empty, Store::Mode::open), Contains("empty.db is empty (run or import something"));
  CHECK(fs::file_size(empty) == 0);
  CHECK(entries_of(folder.path).size() == 1);
  { const Store written(empty); }
  CHECK(Store(empty, Store::Mode::open).list_experiments().empty());
}

TEST_CASE("a schema that is not ours is refused before anything is read from it") {
  const Planted planted;
  const auto change = [&](const std::string& sql) {
    SQLite::Database(planted.file, SQLite::OPEN_READWRITE).exec(sql);
  };
  change("CREATE VIEW mine AS SELECT * FROM v_trial; CREATE TABLE notes (x); CREATE INDEX by_x ON notes (x)");
  { const Store with_what_its_owner_added(planted.file); }
  SECTION("a trigger") {
    change("CREATE TRIGGER \"x\x1b[2J\" AFTER INSERT ON trial BEGIN SELECT 1; END");
    CHECK_THROWS_WITH(Store(planted.file),
                      Contains("has a trigger x") && Contains("DROP TRIGGER") && !Contains("\x1b"));
  }
  SECTION("a trigger with the name of a view") {
    std::string text;
    {
      SQLite::Database database(planted.file);
      text = database.execAndGet("SELECT sql FROM sqlite_schema WHERE name = 'v_rank'").getString();
    }
    change("DROP VIEW v_rank");
    change("CREATE TRIGGER v_rank AFTER INSERT ON trial BEGIN DELETE FROM sample; END");
    change(text);
    CHECK_THROWS_WITH(Store(planted.file), Contains("has a trigger v_rank"));
  }
  SECTION("a version that there never was") {
    change("PRAGMA user_version = -1");
    CHECK_THROWS_WITH(Store(planted.file), Contains("not a sound virtrain database"));
  }
  SECTION("a view in place of a table, which need never end") {
    change(
        "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; ALTER TABLE experiment RENAME TO aside; "
        "CREATE VIEW experiment AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x AS number, aside.* FROM n, aside");
    CHECK_THROWS_WITH(Store(planted.file), Contains("its view experiment is not virtrain's table"));
  }
  SECTION("another view of the same name") {
    change("DROP VIEW v_rank; CREATE VIEW v_rank AS SELECT 1 AS \"\x1b]0;owned\x07\"");
    CHECK_THROWS_WITH(Store(planted.file), Contains("its view v_rank is not virtrain's view"));
  }
  SECTION("a table that is missing") {
    change("DROP TABLE probe");
    CHECK_THROWS_WITH(Store(planted.file), Contains("its table probe is not there"));
  }
}
