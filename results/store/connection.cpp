#include "results/store/connection.h"

#include <SQLiteCpp/Backup.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/open_folder.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "results/store/canonical_json.h"
#include "results/store/probe_settings.h"
#include "results/store/schema/schema.h"

namespace virtrain::results {
namespace {

constexpr const char* unsound_words =
    "this is not a sound virtrain database; give another file with --db or restore it from a copy";
constexpr const char* first_words = "run or import something first, or give --db";
constexpr std::uintmax_t smallest_page_bytes = 512;
constexpr int longest_value_bytes = 64 << 20;
constexpr mode_t owner_only = 0600;
constexpr int application_id = 0x76745253;  // "vtRS"

/// Advice on this failure of SQLite; empty where only its own words help.
std::pair<ErrorCode, std::string> advice(int code) {
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::busy,
              "another process holds the database; wait until it is done, or give another file with --db"};
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return {ErrorCode::io,
              "nothing of this step was stored; free space on that disk, or give a file elsewhere with --db"};
    // The schema is ours, so that SQL fails for what is stored: "malformed JSON", "integer overflow".
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return {ErrorCode::bad_input, unsound_words};
    case SQLITE_CANTOPEN:
      return {ErrorCode::io, "check that its folder exists and that you may write there, or use --db"};
    case SQLITE_READONLY:
      return {ErrorCode::io, "the file or its folder may not be written; change that, or use --db"};
    case SQLITE_AUTH:
      return {
          ErrorCode::host_unable,
          "what lies next to it, FILE-journal or FILE-wal, is another user's or leads elsewhere, and would "
          "change what is stored; let that user's virtrain open the database, or remove it, or give another "
          "file with --db"};
    case SQLITE_INTERRUPT:
      return {ErrorCode::bad_input,
              "reading it takes minutes and is given up; it may be damaged, or made to be slow"};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::bad_input, "the schema refuses this row; nothing of this step was stored"};
    default:
      return {ErrorCode::io, "nothing of this step was stored"};
  }
}

/// Version 9 left the settings of a probe in the words of its source.
void fill_probe_settings(SQLite::Database& database) {
  SQLite::Statement row(database, "SELECT rowid, name, detail FROM probe WHERE detail IS NOT NULL");
  SQLite::Statement update(database, "UPDATE probe SET settings = ?2 WHERE rowid = ?1");
  while (row.executeStep()) {
    Probe probe;
    probe.name = row.getColumn(1).getString();
    probe.detail = parse_json_or_null(row.getColumn(2).getString());
    const auto settings = stored_settings(probe);
    if (settings.is_null()) { continue; }
    update.bind(1, row.getColumn(0).getInt64());
    update.bind(2, canonical_json(settings));
    update.exec();
    update.reset();
  }
}

}  // namespace

Error database_error(const std::string& operation, const std::filesystem::path& file,
                     const SQLite::Exception& failure) {
  const auto [code, words] = advice(failure.getErrorCode());
  return {operation, code, fmt::format("{}: {} ({})", file.string(), failure.what(), words)};
}

Error unsound_error(const std::string& operation, const std::filesystem::path& file,
                    const std::string& what) {
  return {operation, ErrorCode::bad_input, fmt::format("{}: {} ({})", file.string(), what, unsound_words)};
}

Query& Query::bind(const std::string& value) {
  ++parameter_;
  if (!value.empty()) { statement_.bind(parameter_, value); }
  return *this;
}

Query& Query::bind(std::int64_t value) {
  statement_.bind(++parameter_, value);
  return *this;
}

Query& Query::bind(double value) {
  // SQLite would store NaN as NULL without a word.
  if (!std::isfinite(value)) {
    throw Error("store results", ErrorCode::bad_input,
                fmt::format("parameter {} of \"{}\" is {}, it must be a finite number", parameter_ + 1,
                            statement_.getQuery(), value));
  }
  statement_.bind(++parameter_, value);
  return *this;
}

Query& Query::bind(const nlohmann::json& value) {
  return bind(value.is_null() ? std::string() : canonical_json(value));
}

Query& Query::bind(const SweptPoint& point) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : point.values) { object[key] = value; }
  return bind(object.empty() ? std::string() : object.dump());
}

void Query::read(std::string& value) {
  value = statement_.getColumn(column_++).getString();
}

void Query::read(std::int64_t& value) {
  value = statement_.getColumn(column_++).getInt64();
}

void Query::read(double& value) {
  value = statement_.getColumn(column_++).getDouble();
}

void Query::read(bool& value) {
  value = statement_.getColumn(column_++).getInt64() != 0;
}

void Query::read(Status& value) {
  const std::string word = statement_.getColumn(column_++).getString();
  const auto status = enum_of<Status>(word);
  if (!status) { throw UnsoundValue(fmt::format("the status \"{}\"", excerpt(word))); }
  value = *status;
}

void Query::read(nlohmann::json& value) {
  const auto column = statement_.getColumn(column_++);
  value = nullptr;
  if (column.isNull()) { return; }
  try {
    value = parse_json(column.getString(), JsonLimits{});
  } catch (const JsonRefusal& refusal) { throw UnsoundValue(refusal.what()); }
}

void Query::read(SweptPoint& point) {
  point.values.clear();
  const auto column = statement_.getColumn(column_);
  const auto text = column.getString();
  nlohmann::json checked;
  read(checked);
  if (checked.is_null()) { return; }
  for (const auto& [key, value] : checked.items()) {
    if (!value.is_string()) { throw UnsoundValue(fmt::format("the point \"{}\"", excerpt(text))); }
    point.values.emplace_back(key, value.get<std::string>());
  }
  // The order is that of the text, which the parsed object does not keep.
  std::ranges::stable_sort(point.values, {},
                           [&](const auto& one) { return text.find(dump_json(one.first) + ":"); });
}

std::vector<nlohmann::json> Query::read_row() const {
  std::vector<nlohmann::json> row;
  for (int i = 0; i < statement_.getColumnCount(); ++i) {
    const auto column = statement_.getColumn(i);
    if (column.isNull()) {
      row.emplace_back();
    } else if (column.isInteger()) {
      row.emplace_back(column.getInt64());
    } else if (column.isFloat()) {
      row.emplace_back(column.getDouble());
    } else {
      row.emplace_back(column.getString());
    }
  }
  return row;
}

std::vector<std::string> Query::column_names() const {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(statement_.getColumnCount()));
  for (int i = 0; i < statement_.getColumnCount(); ++i) { names.emplace_back(statement_.getColumnName(i)); }
  return names;
}

bool Query::next() {
  clock_.begin_step_of(begun_);
  return statement_.executeStep();
}

void Query::run() {
  clock_.begin_step();
  statement_.exec();
}

Query& Query::restart() {
  statement_.reset();
  begun_ = std::chrono::steady_clock::now();
  parameter_ = 0;
  return row();
}

Store::Connection::Connection(std::filesystem::path path, Mode mode, std::chrono::milliseconds busy_timeout,
                              std::chrono::milliseconds longest_step)
    : file(std::move(path)), clock_(std::make_unique<StepClock>(longest_step)) {
  const std::string operation = "open the results database";
  std::error_code unseen;
  if (mode != Mode::create && !std::filesystem::exists(file, unseen)) {
    if (unseen) { throw Error(operation, ErrorCode::io, file.string() + ": " + unseen.message()); }
    throw Error(operation, ErrorCode::not_found,
                fmt::format("{} does not exist ({})", file.string(), first_words));
  }
  const bool has_place = mode != Mode::copy && file != ":memory:";  // SQLite's name for no file at all
  const auto opened = has_place ? find_place(operation, mode) : file;
  guarded(operation, [&] {
    const int create = mode == Mode::open ? 0 : SQLite::OPEN_CREATE;
    database_.emplace(mode == Mode::copy ? "" : opened.string(), SQLite::OPEN_READWRITE | create,
                      static_cast<int>(busy_timeout.count()), own_journal_vfs());
    if (mode == Mode::copy) { copy_file(busy_timeout); }
    harden();
    database_->exec("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL");
    migrate(mode);
    database_->exec("PRAGMA journal_mode = TRUNCATE");
  });
  if (place_) { keep_from_others(); }
}

/// Its folder is opened once, so that nobody can turn the way to it meanwhile.
std::filesystem::path Store::Connection::find_place(const std::string& operation, Mode mode) {
  constexpr mode_t usual = 0777;
  try {
    place_.emplace(file, operation, LastLink::is_followed,
                   mode == Mode::create ? std::optional(usual) : std::nullopt);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) { throw; }
    if (std::error_code unseen; std::filesystem::is_directory(file, unseen)) {
      throw Error(operation, ErrorCode::io, file.string() + " is a folder (give a file in it with --db)");
    }
    throw Error(operation, ErrorCode::io,
                fmt::format("cannot make the folder {}: {} (use --db)", file.parent_path().string(),
                            error.message()));
  }
  // Else SQLite makes it, with the usual mode.
  if (mode == Mode::create && ::geteuid() == 0) {
    UniqueFd(::openat(place_->folder.get(), place_->name.c_str(),
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, owner_only));
  }
  return place_->path();
}

/// Root's: who may read it may hold a lock on it and so stop root. No descriptor that could be read from is
/// closed here, for with it go SQLite's locks.
void Store::Connection::keep_from_others() {
  const UniqueFd found(::openat(place_->folder.get(), place_->name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool is_roots = ::geteuid() == 0 && found && ::fstat(found.get(), &status) == 0 &&
                        status.st_uid == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
  if (!is_roots || (status.st_mode & 07777 & ~owner_only) == 0) { return; }
  ::chmod(fmt::format("/proc/self/fd/{}", found.get()).c_str(), owner_only);
}

void StepClock::begin_step() {
  step_ = std::chrono::steady_clock::now();
}

bool StepClock::is_late() const {
  return std::chrono::steady_clock::now() - step_ > longest_;
}

void StepClock::begin_step_of(std::chrono::steady_clock::time_point query) {
  constexpr int longest_query = 5;  // steps
  begin_step();
  if (step_ - query > longest_query * longest_) {
    throw SQLite::Exception("the query does not end", SQLITE_INTERRUPT);
  }
}

/// The file may be anybody's, and what its schema has is not yet looked at.
void Store::Connection::harden() {
  constexpr int instructions_between_looks = 10'000;
  constexpr int* unused = nullptr;
  auto* const handle = database_->getHandle();
  ::sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, longest_value_bytes);
  // TRUSTED_SCHEMA stays on: without it SQLite 3.40 refuses our own checks by json_valid().
  ::sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, unused);
  ::sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, unused);
  clock_->begin_step();
  const auto is_late = [](void* clock) { return static_cast<const StepClock*>(clock)->is_late() ? 1 : 0; };
  ::sqlite3_progress_handler(handle, instructions_between_looks, is_late, clock_.get());
}

/// Page by page; a run may be writing to the file. Nothing that is in it is run.
void Store::Connection::copy_file(std::chrono::milliseconds busy_timeout) {
  constexpr int pages_of_piece = 4096;
  constexpr std::uintmax_t most_bytes = std::uintmax_t{16} << 30;
  if (const auto bytes = std::filesystem::file_size(file); bytes > most_bytes) {
    throw Error("copy the database", ErrorCode::bad_input,
                fmt::format("{} has {} bytes (allowed: {})", file.string(), bytes, most_bytes));
  }
  clock_->begin_step();
  SQLite::Database source(file.string(), SQLite::OPEN_READONLY, static_cast<int>(busy_timeout.count()),
                          own_journal_vfs());
  // Where another process holds it, the step says so by its result and not by an exception.
  SQLite::Backup backup(*database_, source);
  int result = SQLITE_OK;
  while (result == SQLITE_OK && !clock_->is_late()) { result = backup.executeStep(pages_of_piece); }
  if (result == SQLITE_OK) {
    throw Error("copy the database", ErrorCode::timeout,
                file.string() + ": the copy takes too long; copy the file to a local disk first");
  }
  if (result != SQLITE_DONE) {
    throw Error("copy the database", ErrorCode::busy,
                file.string() + ": another process holds it; wait until it is done");
  }
}

Query Store::Connection::query(const std::string& sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) { return Query(found->second, *clock_); }
  return Query(statements_.try_emplace(sql, *database_, sql).first->second, *clock_);
}

std::int64_t Store::Connection::experiment_number(const std::string& id) {
  auto found = query("SELECT number FROM experiment WHERE id = ?");
  found.bind(id);
  if (!found.next()) {
    std::string advice;
    if (id.ends_with(".db")) { advice = "; did you mean --db " + id + "?"; }
    if (id.ends_with(".html")) { advice = "; did you mean -o " + id + "?"; }
    throw Error("find experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + file.string() + " (virtrain list shows them" + advice + ")");
  }
  return found.read<std::int64_t>();
}

void Store::Connection::save_fingerprint(std::optional<std::int64_t> experiment,
                                         std::optional<std::int64_t> node, const Fingerprint& fingerprint) {
  for (const auto& [key, value] : fingerprint) {
    if (value.empty()) { continue; }
    query(
        "INSERT INTO fingerprint (experiment_number, node_id, key, value) VALUES (?, ?, ?, ?) ON CONFLICT DO "
        "NOTHING")
        .bind(experiment)
        .bind(node)
        .bind(key)
        .bind(value)
        .run();
  }
}

std::int64_t Store::Connection::pragma(const std::string& name) {
  clock_->begin_step();
  return database_->execAndGet("PRAGMA " + name).getInt64();
}

void Store::Connection::give_room_back() {
  constexpr int incremental = 2;
  constexpr int pages_a_step = 1000;
  if (pragma("auto_vacuum") != incremental) { return; }
  for (auto free = pragma("freelist_count"); free > 0;) {
    SQLite::Statement step(*database_, fmt::format("PRAGMA incremental_vacuum({})", pages_a_step));
    while (step.executeStep()) {}
    const auto left = pragma("freelist_count");
    if (left >= free) { return; }
    free = left;
  }
}

void Store::Connection::check_schema() {
  const SQLite::Transaction snapshot(*database_);  // another process may be bringing it up to date
  if (const auto foreign = foreign_schema(*database_, pragma("user_version")); !foreign.empty()) {
    throw UnsoundValue(foreign);
  }
}

/// Pages that several others lead to would be read without end, and the schema says nothing of them.
void Store::Connection::check_pages() {
  clock_->begin_step();
  const auto found = database_->execAndGet("PRAGMA quick_check(1)").getString();
  if (found != "ok") { throw UnsoundValue(excerpt(found)); }
}

void Store::Connection::migrate(Mode mode) {
  const auto refuse = [&](const std::string& words) {
    return Error("open the results database", ErrorCode::bad_input, file.string() + " " + words);
  };
  const auto id = pragma("application_id");
  const bool fresh = id == 0 && database_->execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
  // A file that is shorter than a page is an empty database to SQLite, which would write over it.
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(file, unknown);
  if (fresh && !unknown && bytes > 0 && bytes < smallest_page_bytes) {
    throw refuse("is not a database; give another file with --db");
  }
  if (!fresh && id != application_id) {
    throw refuse("is a database of another program; give another file with --db");
  }
  if (fresh && mode != Mode::create) { throw refuse(fmt::format("is empty ({})", first_words)); }
  if (pragma("user_version") < 0) { throw UnsoundValue("its schema has a version below 0"); }
  if (pragma("user_version") > schema_version) {
    throw refuse(
        fmt::format("was written by a newer virtrain (schema {}, this one knows {}); use that version",
                    pragma("user_version"), schema_version));
  }
  if (pragma("user_version") > 0 && pragma("user_version") < oldest_schema_version) {
    throw refuse(fmt::format(
        "was written before virtrain 0.2.0 (schema {}, this one reads {} and later); open it once "
        "with virtrain 0.2.0, which brings it to schema 9",
        pragma("user_version"), oldest_schema_version));
  }
  check_schema();
  const bool is_foreign = mode == Mode::copy || !is_trusted_owner(folder_owner(file));
  if (!fresh && is_foreign) { check_pages(); }
  if (pragma("user_version") == schema_version) { return; }
  if (!fresh && ::sqlite3_db_readonly(database_->getHandle(), "main") == 1) {
    throw Error(
        "open the results database", ErrorCode::io,
        fmt::format("{} is of an older virtrain (schema {}, now {}) and may not be written; copy it and give "
                    "the copy with --db",
                    file.string(), pragma("user_version"), schema_version));
  }
  if (fresh) { database_->exec("PRAGMA auto_vacuum = INCREMENTAL"); }  // counts for a new file only
  const Scope scope(*this);
  // Read again inside the transaction: another process may have done it meanwhile.
  for (auto version = pragma("user_version"); version < schema_version;) {
    clock_->begin_step();
    version = migrate_from(version, *database_);
  }
  fill_probe_settings(*database_);
  database_->exec(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", application_id, schema_version));
  scope.commit();
}

Store::Connection::Scope::Scope(Connection& connection)
    : connection_(connection), outermost_(!connection.in_transaction_) {
  if (!outermost_) { return; }
  connection_.database_->exec("BEGIN IMMEDIATE");
  connection_.in_transaction_ = true;
}

Store::Connection::Scope::~Scope() {
  if (!outermost_) { return; }
  connection_.in_transaction_ = false;
  // SQLite may have rolled back by itself (full disk); then this finds nothing to do.
  if (open_) { connection_.database_->tryExec("ROLLBACK"); }
}

void Store::Connection::Scope::commit() const {
  if (!outermost_) { return; }
  connection_.database_->exec("COMMIT");
  open_ = false;
}

namespace {

constexpr const char* vfs_name = "virtrain-own-journal";

sqlite3_vfs* usual_vfs() {
  static sqlite3_vfs* const usual = ::sqlite3_vfs_find(nullptr);
  return usual;
}

/// "results.db" of "results.db-journal".
std::string database_of(const std::string& beside) {
  return beside.substr(0, beside.rfind('-'));
}

/// Origin of a file beside a database.
enum class Standing { absent, own, foreign };

/// A second name could be a link to a file of ours that was never meant for this.
Standing standing_of(const std::string& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) { return errno == ENOENT ? Standing::absent : Standing::foreign; }
  struct stat database {};
  const bool is_owners =
      ::lstat(database_of(file).c_str(), &database) == 0 && status.st_uid == database.st_uid;
  const bool is_own =
      S_ISREG(status.st_mode) && status.st_nlink <= 1 && (is_owners || is_trusted_owner(status.st_uid));
  return is_own ? Standing::own : Standing::foreign;
}

/// Takes away the empty journal that another writer of a database in a shared folder has left.
bool remove_empty(const std::string& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0 &&
         ::unlink(file.c_str()) == 0;
}

/// Opens a journal by its name. It looks again after opening, which finds a file that was swapped meanwhile:
/// nobody else can put a file of ours there.
int open_journal(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  const bool makes = (flags & SQLITE_OPEN_CREATE) != 0;
  auto standing = standing_of(name);
  if (standing == Standing::foreign && makes && remove_empty(name)) { standing = Standing::absent; }
  if (standing == Standing::foreign) { return SQLITE_AUTH; }
  if (standing == Standing::absent && !makes) { return SQLITE_CANTOPEN; }
  const int status = usual_vfs()->xOpen(vfs, name, file, flags, out_flags);
  if (status != SQLITE_OK || standing_of(name) == Standing::own) { return status; }
  file->pMethods->xClose(file);
  file->pMethods = nullptr;
  return SQLITE_AUTH;
}

int open_own(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // SQLite then closes nothing
  if ((flags & SQLITE_OPEN_SUPER_JOURNAL) != 0) { return SQLITE_AUTH; }
  const bool is_wal = (flags & SQLITE_OPEN_WAL) != 0;
  if (is_wal && standing_of(database_of(name) + "-shm") == Standing::foreign) { return SQLITE_AUTH; }
  if (is_wal || (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0) {
    return open_journal(vfs, name, file, flags, out_flags);
  }
  return usual_vfs()->xOpen(vfs, name, file, flags, out_flags);
}

/// A name below an open folder (FilePlace) is whole; where that folder's link in /proc leads to is for nobody
/// to look up again.
int full_path(sqlite3_vfs* vfs, const char* name, int most_bytes, char* full) {
  constexpr std::string_view open_folders = "/proc/self/fd/";
  const std::string_view given = name;
  if (!given.starts_with(open_folders)) { return usual_vfs()->xFullPathname(vfs, name, most_bytes, full); }
  if (given.size() >= static_cast<std::size_t>(most_bytes)) { return SQLITE_CANTOPEN; }
  full[given.copy(full, given.size())] = '\0';
  return SQLITE_OK;
}

/// Replaces open(2) in SQLite, which opens FIFOs as it opens files and then waits for their other end. It
/// opens folders too, to synchronize them.
int open_without_waiting(const char* path, int flags, int mode) {
  const int opened = ::open(path, flags | O_NONBLOCK | O_NOCTTY, mode);
  if (opened < 0) { return opened; }
  struct stat status {};
  if (::fstat(opened, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
    return opened;
  }
  ::close(opened);
  errno = ENXIO;
  return -1;
}

}  // namespace

const char* own_journal_vfs() {
  static sqlite3_vfs own = *usual_vfs();
  // Where it cannot be registered SQLite knows no VFS of this name and opens nothing.
  [[maybe_unused]] static const int status = [] {
    own.zName = vfs_name;
    own.pNext = nullptr;
    own.xOpen = open_own;
    own.xFullPathname = full_path;
    usual_vfs()->xSetSystemCall(usual_vfs(), "open",
                                reinterpret_cast<sqlite3_syscall_ptr>(&open_without_waiting));
    return ::sqlite3_vfs_register(&own, 0);
  }();
  return vfs_name;
}

}  // namespace virtrain::results
