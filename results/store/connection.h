#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "results/store/columns.h"
#include "results/store/store.h"

namespace virtrain::results {

/// The Error that tells a user what SQLite's failure means for this file and what to do.
Error database_error(const std::string& operation, const std::filesystem::path& file,
                     const SQLite::Exception& failure);

/// Ends what SQLite does once it takes too long, for what is in the file may be made to take for ever.
class StepClock {
 public:
  explicit StepClock(std::chrono::milliseconds longest_step) : longest_(longest_step) {}
  void begin_step();
  /// Throws SQLite::Exception where the query that began then has had enough.
  void begin_step_of(std::chrono::steady_clock::time_point query);
  bool is_late() const;

 private:
  std::chrono::milliseconds longest_;
  std::chrono::steady_clock::time_point step_ = std::chrono::steady_clock::now();
};

/// A prepared statement taken from the connection's cache; gives its locks back when it goes.
class Query {
 public:
  Query(SQLite::Statement& statement, StepClock& clock) : statement_(statement), clock_(clock) {}
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query() {
    statement_.tryReset();
    statement_.clearBindings();
  }

  /// Binds the next parameter; unknown (empty) values become NULL, numbers that are not finite are refused.
  Query& bind(const std::string& value);
  Query& bind(const char* value) { return bind(std::string(value)); }
  Query& bind(std::int64_t value);
  Query& bind(double value);
  Query& bind(bool value) { return bind(static_cast<std::int64_t>(value)); }
  Query& bind(Status value) { return bind(std::string(to_string(value))); }
  Query& bind(const nlohmann::json& value);
  Query& bind(const SweptPoint& point);
  template <typename T>
  Query& bind(const std::optional<T>& value) {
    if (value) { return bind(*value); }
    ++parameter_;
    return *this;
  }
  template <typename Record>
  Query& bind_columns(const Record& record) {
    visit_columns(record, [this](const char*, const auto& value) { this->bind(value); });
    return *this;
  }

  bool next();
  void run();

  /// Reads the next column of the present row.
  void read(std::string& value);
  void read(std::int64_t& value);
  void read(double& value);
  void read(bool& value);
  void read(Status& value);
  void read(nlohmann::json& value);
  void read(SweptPoint& point);
  template <typename T>
  void read(std::optional<T>& value) {
    if (statement_.isColumnNull(column_)) {
      value.reset();
      ++column_;
      return;
    }
    read(value.emplace());
  }
  template <typename T>
  T read() {
    T value{};
    read(value);
    return value;
  }
  template <typename Record>
  void read_columns(Record& record) {
    visit_columns(record, [this](const char*, auto& value) { this->read(value); });
  }
  /// The rows that are left, each as a record.
  template <typename Record>
  std::vector<Record> rows() {
    std::vector<Record> records;
    while (next()) { row().read_columns(records.emplace_back()); }
    return records;
  }
  /// All columns of the present row as SQLite typed them.
  std::vector<nlohmann::json> read_row() const;
  std::vector<std::string> column_names() const;
  /// Ready for other parameters.
  Query& restart();
  /// To the first column again, for the next row.
  Query& row() {
    column_ = 0;
    return *this;
  }

 private:
  SQLite::Statement& statement_;
  StepClock& clock_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  int parameter_ = 0;
  int column_ = 0;
};

/// A stored value that virtrain never stores; Connection::guarded names the file.
struct UnsoundValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};
Error unsound_error(const std::string& operation, const std::filesystem::path& file, const std::string& what);

/// The open file with its prepared statements.
class Store::Connection {
 public:
  Connection(std::filesystem::path path, Mode mode, std::chrono::milliseconds busy_timeout,
             std::chrono::milliseconds longest_step);

  Query query(const std::string& sql);
  /// Runs `work` and turns SQLite's exceptions and unsound values into Errors.
  template <typename Work>
  auto guarded(const std::string& operation, Work&& work) {
    try {
      return work();
    } catch (const SQLite::Exception& failure) {
      throw database_error(operation, file, failure);
    } catch (const UnsoundValue& value) { throw unsound_error(operation, file, value.what()); }
  }
  /// As guarded, in one BEGIN IMMEDIATE transaction (or inside the one that is open).
  template <typename Work>
  auto in_transaction(const std::string& operation, Work&& work) {
    return guarded(operation, [&] {
      const Scope scope(*this);
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        scope.commit();
      } else {
        auto result = work();
        scope.commit();
        return result;
      }
    });
  }
  /// A number of SQLite's own, such as "freelist_count".
  std::int64_t pragma(const std::string& name);
  /// Gives pages back to the file system in short steps, where the file was made for that.
  void give_room_back();
  std::int64_t last_insert_id() const { return database_->getLastInsertRowid(); }
  /// Number of the experiment's row; Error(not_found) if there is none.
  std::int64_t experiment_number(const std::string& id);
  /// Stores facts of an experiment or of a node; facts with an empty value are not known and left out.
  void save_fingerprint(std::optional<std::int64_t> experiment, std::optional<std::int64_t> node,
                        const Fingerprint& fingerprint);

  std::filesystem::path file;

 private:
  /// Rolls back when it goes, unless committed; an inner scope leaves both to the outermost one.
  class Scope {
   public:
    explicit Scope(Connection& connection);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();
    void commit() const;

   private:
    Connection& connection_;
    bool outermost_;
    mutable bool open_ = true;
  };

  void copy_file(std::chrono::milliseconds busy_timeout);
  std::filesystem::path find_place(const std::string& operation, Mode mode);
  void keep_from_others();
  void harden();
  void check_schema();
  void check_pages();
  void migrate(Mode mode);

  std::unique_ptr<StepClock> clock_;  ///< SQLite knows where it is
  std::optional<FilePlace> place_;    ///< nothing of a copy
  std::optional<SQLite::Database> database_;
  std::unordered_map<std::string, SQLite::Statement> statements_;
  bool in_transaction_ = false;
};

/// "INSERT INTO table (KEY, columns…) VALUES (?, …)": the SQL for a record behind its foreign key and what
/// else of the row is not in it ("a, b").
template <typename Record>
std::string insert_sql(const std::string& table, const std::string& key) {
  std::string columns = key;
  std::string marks = "?";
  for (const char c : key) { marks += c == ',' ? ", ?" : ""; }
  const Record record{};
  visit_columns(record, [&](const char* name, const auto&) {
    columns += std::string(", \"") + name + "\"";
    marks += ", ?";
  });
  return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks + ")";
}

/// As insert_sql; a row with the same `unique` columns is updated instead, and its id comes back.
template <typename Record>
std::string upsert_sql(const std::string& table, const std::string& key, const std::string& unique) {
  std::string updates;
  const Record record{};
  visit_columns(record, [&](const char* name, const auto&) {
    updates += std::string(updates.empty() ? "\"" : ", \"") + name + "\" = excluded.\"" + name + "\"";
  });
  return insert_sql<Record>(table, key) + " ON CONFLICT (" + unique + ") DO UPDATE SET " + updates +
         " RETURNING id";
}

/// "SELECT COLUMNS FROM rest": the SQL for records behind the columns `first`, "id, ", if any.
template <typename Record>
std::string select_sql(const std::string& rest, const std::string& first = "") {
  std::string columns;
  const Record record{};
  visit_columns(record, [&](const char* name, const auto&) {
    columns += std::string(columns.empty() ? "\"" : ", \"") + name + "\"";
  });
  return "SELECT " + first + columns + " FROM " + rest;
}

/// Name of a VFS for SQLite: its usual one, except that what it plays back beside a database (FILE-journal,
/// FILE-wal) must belong to us, to root or to the database's owner, and that it removes no other file, as a
/// journal may ask it to: anybody who can write to the folder could plant one. Refuses with SQLITE_AUTH. It
/// opens regular files only and never waits for one, whoever exchanges a database for a FIFO meanwhile.
const char* own_journal_vfs();

}  // namespace virtrain::results
