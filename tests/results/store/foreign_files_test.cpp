// What strangers could put into a database or beside it.

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/files/reading.h"
#include "results/store/connection.h"
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

/// Has each cell of the table's root page, an interior one, lead to the page that its first cell leads to.
void make_pages_lead_back(std::string& bytes, const fs::path& database, const std::string& table) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const auto number = [&](std::size_t i) { return byte(i) << 8 | byte(i + 1); };
  const auto root = SQLite::Database(database)
                        .execAndGet("SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'")
                        .getInt();
  const auto page = static_cast<std::size_t>(root - 1) * number(16);
  constexpr std::size_t interior = 5, header_bytes = 12;
  REQUIRE(byte(page) == interior);
  const auto cells = number(page + 3);
  REQUIRE(cells > 1);
  const auto cell = [&](std::size_t i) { return page + number(page + header_bytes + 2 * i); };
  const auto first = bytes.substr(cell(0), 4);
  for (std::size_t i = 1; i < cells; ++i) { bytes.replace(cell(i), first.size(), first); }
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
  SECTION("a view, a table or an index that its owner added") {
    for (const auto& [added, name] : {std::pair{"VIEW mine AS SELECT * FROM v_trial", "view mine"},
                                      {"TABLE notes (x)", "table notes"},
                                      {"INDEX by_status ON trial (status)", "index by_status"}}) {
      change(std::string("CREATE ") + added);
      CHECK_THROWS_WITH(Store(planted.file), Contains(std::string("it has a ") + name +
                                                      ", which virtrain does not make; DROP it"));
      change(std::string("DROP ") + name);
    }
    { const Store as_it_was(planted.file); }
  }
  SECTION("a trigger whose type is spelled in another way") {
    change(
        "CREATE TRIGGER faster AFTER INSERT ON trial BEGIN UPDATE trial SET status = 'failed'; END; "
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'TRIGGER' WHERE name = 'faster'");
    CHECK_THROWS_WITH(Store(planted.file), Contains("it has a TRIGGER faster, which virtrain does not make"));
  }
  SECTION("a row of the schema that is there twice") {
    change(
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = "
        "'probe'");
    CHECK_THROWS_AS(Store(planted.file), Error);
  }
  SECTION("a trigger") {
    change("CREATE TRIGGER \"x\x1b[2J\" AFTER INSERT ON trial BEGIN SELECT 1; END");
    CHECK_THROWS_WITH(Store(planted.file),
                      Contains("has a trigger x") && Contains("DROP") && !Contains("\x1b"));
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
    CHECK_THROWS_WITH(Store(planted.file), Contains("has another trigger v_rank"));
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

TEST_CASE("a database whose pages lead to each other again and again is read to no end") {
  const Planted planted;
  {
    Store store(planted.file);
    store.add_experiment(an_experiment("e"));
    for (int pair = 1; pair <= 400; ++pair) { add_finished(store, "e", "c", "vm", pair, 100); }
  }
  // Every cell of an interior page of the table leads to the page's first child, and that one's, too.
  auto bytes = read_file(planted.file).value();
  make_pages_lead_back(bytes, planted.file, "trial");
  std::ofstream(planted.file, std::ios::binary | std::ios::trunc) << bytes;
  CHECK_THROWS_WITH(Store(planted.file, Store::Mode::copy), Contains("not a sound virtrain database"));
}

TEST_CASE("damaged JSON makes a database a bad input, and not a disk that fails") {
  const Planted planted;
  {
    Store store(planted.file);
    store.add_experiment(an_experiment("e"));
    for (const char* arm : {"bare_metal", "vm"}) { add_finished(store, "e", "c", arm, 1, 100); }
  }
  SQLite::Database(planted.file, SQLite::OPEN_READWRITE)
      .exec("PRAGMA ignore_check_constraints = ON; UPDATE trial SET environment = '{'");
  const Store damaged(planted.file, Store::Mode::open);
  const auto error = error_of([&] { damaged.comparison_data({"e"}, {"host"}); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK_THAT(error.message(), Contains("malformed JSON") && Contains("not a sound virtrain database"));
}

TEST_CASE("what SQLite does for a file has an end") {
  const Planted planted;
  {
    Store store(planted.file);
    store.add_experiment(an_experiment("e"));
    for (int pair = 1; pair <= 3000; ++pair) { add_finished(store, "e", "c", "vm", pair, 100); }
  }
  const Store hurried(planted.file, Store::Mode::open, std::chrono::seconds(10),
                      std::chrono::milliseconds(0));
  const auto error = error_of([&] { hurried.view("v_trial", {"e"}); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK_THAT(error.message(), Contains("is given up"));
}

TEST_CASE("root's database is nobody else's to read or to lock") {
  test::need_root();
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  const auto mode = [&] { return fs::status(file).permissions() & fs::perms::mask; };
  const auto before = ::umask(022);
  { const Store made(file); }
  CHECK(mode() == (fs::perms::owner_read | fs::perms::owner_write));
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  { const Store opened(file, Store::Mode::open); }
  CHECK(mode() == (fs::perms::owner_read | fs::perms::owner_write));
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  REQUIRE(::chown(file.c_str(), test::stranger, test::stranger) == 0);
  { const Store of_another(file, Store::Mode::open); }
  CHECK(mode() ==
        (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read));
  ::umask(before);
}

TEST_CASE("SQLite waits for no FIFO that took a database's place after it was looked at") {
  const TemporaryFolder folder;
  const auto pipe = folder.path / "results.db";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto open = [&] { SQLite::Database(pipe, SQLite::OPEN_READONLY, 0, own_journal_vfs()); };
  CHECK_THROWS_AS(open(), SQLite::Exception);
}
