#include "vmctl/journal/leases.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <string_view>

#include "common/error.h"
#include "common/files/file_lock.h"
#include "common/files/unique_fd.h"
#include "common/system/process_info.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"
#include "vmctl_embedded.h"

namespace virtrain::vmctl {
namespace {

constexpr std::string_view claim_prefix_of_devices = "device:";

bool has_no_locks(const SQLite::Exception& failure) {
  const int code = failure.getExtendedErrorCode();
  return code == SQLITE_IOERR_LOCK || code == SQLITE_IOERR_RDLOCK || code == SQLITE_IOERR_CHECKRESERVEDLOCK;
}

/// SQLite locks the file itself, so whoever may open it could hold every run up: only its owner may. By name,
/// not by a descriptor: closing one would drop the locks that this process has.
const std::filesystem::path& closed_to_others(const std::filesystem::path& file) {
  constexpr mode_t owner_only = 0600;
  const UniqueFd made(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, owner_only));
  if (made) { return file; }
  for (const char* suffix : {"", "-journal"}) {
    const auto one = file.string() + suffix;
    struct stat status {};
    if (::lstat(one.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_mode & 07777 & ~owner_only) != 0 && status.st_uid == ::geteuid()) {
      ::chmod(one.c_str(), owner_only);
    }
  }
  return file;
}

/// Runs a journal operation; SQLite's failures become ours, with its words.
template <typename Work>
auto journalled(const char* operation, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const SQLite::Exception& failure) {
    const bool locked = failure.getErrorCode() == SQLITE_BUSY;
    const bool damaged = failure.getErrorCode() == SQLITE_NOTADB || failure.getErrorCode() == SQLITE_CORRUPT;
    const bool unwritten = failure.getErrorCode() == SQLITE_FULL || failure.getErrorCode() == SQLITE_IOERR;
    throw Error(
        operation, locked ? ErrorCode::busy : ErrorCode::io,
        std::string(failure.what()) + " (lease journal " + (state_dir() / "leases.db").string() +
            (has_no_locks(failure) ? "; its file system has no locks, as some network file systems: "
                                     "choose a folder on a local disk with VIRTRAIN_STATE_DIR)"
             : damaged   ? "; move it away, then run virtrain clean, which finds VMs, slices and networks by "
                           "their marks, but not devices that were assigned)"
             : unwritten ? "; free space on that disk)"
                         : ")"));
  }
}

/// Columns of the owner, as read_owner() takes them, at the end of every query for owners, leases or effects.
constexpr const char* owner_columns = "o.pid, o.start_time, o.boot_id, o.experiment, o.results_db";

Owner read_owner(SQLite::Statement& row, int at) {
  Owner owner;
  owner.pid = row.getColumn(at).getInt();
  owner.start_time = static_cast<std::uint64_t>(row.getColumn(at + 1).getInt64());
  owner.boot_id = row.getColumn(at + 2).getString();
  owner.experiment = row.getColumn(at + 3).getString();
  owner.results_db = row.getColumn(at + 4).getString();
  return owner;
}

/// A live run on another host that shares the state folder has that host's cores and devices.
bool lives_here(const Owner& owner) {
  return owner.boot_id == boot_id() && is_alive(owner);
}

bool same(const Owner& a, const Owner& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot_id == b.boot_id &&
         a.experiment == b.experiment;
}

}  // namespace

Owner this_process(std::string experiment, std::string results_db) {
  const auto self = process_info(::getpid());
  return {::getpid(), self ? self->start_time : 0, boot_id(), std::move(experiment), std::move(results_db)};
}

std::filesystem::path living_folder() {
  return state_dir() / "living";
}

bool is_alive(const Owner& owner) {
  const auto process = owner.boot_id == boot_id() ? process_info(owner.pid) : std::nullopt;
  return (process && process->start_time == owner.start_time) ||
         is_locked(living_folder() / (experiment_claim + owner.experiment));
}

struct LeaseJournal::Impl {
  explicit Impl(const std::filesystem::path& file)
      : database(closed_to_others(file).string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    constexpr int busy_milliseconds = 10'000;
    database.setBusyTimeout(busy_milliseconds);
    database.exec("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;");
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(std::string(leases_sql));
    constexpr int newest_version = 2;
    const auto version = database.execAndGet("PRAGMA user_version").getInt();
    if (version > newest_version) {
      throw Error(
          "open the lease journal", ErrorCode::bad_input,
          fmt::format("{} was written by a newer virtrain (version {}, this one knows {}); use that one",
                      file.string(), version, newest_version));
    }
    if (version < newest_version) { database.exec(std::string(leases_2_sql)); }
    transaction.commit();
  }

  /// A statement with its values.
  template <typename... Values>
  SQLite::Statement statement(const std::string& sql, const Values&... values) {
    SQLite::Statement made(database, sql);
    if constexpr (sizeof...(values) > 0) { SQLite::bind(made, values...); }
    return made;
  }

  template <typename... Values>
  int execute(const std::string& sql, const Values&... values) {
    return statement(sql, values...).exec();
  }

  /// Does all of `work` or, where it throws, nothing of it.
  template <typename Work>
  auto change(const char* operation, Work work) {
    return journalled(operation, [&] {
      const std::scoped_lock lock(mutex);
      SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      const auto outcome = work();
      transaction.commit();
      return outcome;
    });
  }

  /// Applies `read` to each row.
  template <typename Read>
  auto rows(const std::string& sql, Read read) {
    return journalled("read the lease journal", [&] {
      const std::scoped_lock lock(mutex);
      auto row = statement(sql);
      std::vector<decltype(read(row))> found;
      while (row.executeStep()) { found.push_back(read(row)); }
      return found;
    });
  }

  std::int64_t owner_id(const Owner& owner) {
    execute(
        "INSERT INTO owner (pid, start_time, boot_id, experiment, results_db) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        owner.pid, static_cast<std::int64_t>(owner.start_time), owner.boot_id, owner.experiment,
        owner.results_db);
    return find_owner(owner);
  }

  std::int64_t find_owner(const Owner& owner) {
    auto found =
        statement("SELECT id FROM owner WHERE pid = ? AND start_time = ? AND boot_id = ? AND experiment = ?",
                  owner.pid, static_cast<std::int64_t>(owner.start_time), owner.boot_id, owner.experiment);
    return found.executeStep() ? found.getColumn(0).getInt64() : 0;
  }

  void refuse_quarantined(const std::string& resource) {
    if (!resource.starts_with(claim_prefix_of_devices)) { return; }
    const auto address = resource.substr(claim_prefix_of_devices.size());
    auto row = statement("SELECT reason, since FROM quarantine WHERE address = ?", address);
    if (!row.executeStep()) { return; }
    throw Error("lease " + resource, ErrorCode::host_unable,
                fmt::format("in quarantine since {}: {} (once it works: virtrain clean --lift-quarantine {})",
                            row.getColumn(1).getString(), row.getColumn(0).getString(), address));
  }

  void take(const std::string& resource, const Owner& owner, std::int64_t id) {
    refuse_quarantined(resource);
    auto holder =
        statement(fmt::format("SELECT {} FROM lease l JOIN owner o ON o.id = l.owner WHERE l.resource = ?",
                              owner_columns),
                  resource);
    if (holder.executeStep()) {
      const Owner held_by = read_owner(holder, 0);
      if (!same(held_by, owner) && lives_here(held_by)) {
        throw Error("lease " + resource, ErrorCode::busy,
                    fmt::format("held by experiment {} (pid {}, results in {})", held_by.experiment,
                                held_by.pid, held_by.results_db));
      }
    }
    execute("INSERT OR REPLACE INTO lease (resource, owner) VALUES (?, ?)", resource, id);
  }

  SQLite::Database database;
  std::mutex mutex;  ///< one connection, many threads
};

bool LeaseJournal::is_there() {
  try {
    return std::filesystem::exists(state_dir() / "leases.db");
  } catch (const Error&) { return false; }
}

LeaseJournal::LeaseJournal(const std::filesystem::path& file)
    : impl_(journalled("open the lease journal", [&] {
        return std::make_unique<Impl>(file.empty() ? state_dir() / "leases.db" : file);
      })) {}
LeaseJournal::~LeaseJournal() = default;

void LeaseJournal::acquire(const Owner& owner, const std::vector<std::string>& resources) {
  impl_->change("lease resources", [&] {
    const auto id = impl_->owner_id(owner);
    for (const auto& resource : resources) { impl_->take(resource, owner, id); }
    return id;
  });
}

void LeaseJournal::release(const Owner& owner, const std::vector<std::string>& resources) {
  impl_->change("release resources", [&] {
    const auto id = impl_->find_owner(owner);
    for (const auto& resource : resources) {
      impl_->execute("DELETE FROM lease WHERE resource = ? AND owner = ?", resource, id);
    }
    return id;
  });
}

void LeaseJournal::release_all(const Owner& owner) {
  impl_->change("release everything",
                [&] { return impl_->execute("DELETE FROM owner WHERE id = ?", impl_->find_owner(owner)); });
}

void LeaseJournal::end(const Owner& owner) {
  impl_->change("end a run in the lease journal", [&] {
    const auto id = impl_->find_owner(owner);
    impl_->execute("DELETE FROM lease WHERE owner = ?", id);
    return impl_->execute("DELETE FROM owner WHERE id = ? AND id NOT IN (SELECT owner FROM effect)", id);
  });
}

std::int64_t LeaseJournal::intent(const Owner& owner, EffectKind kind, std::string_view name,
                                  std::string_view state) {
  return impl_->change("journal an intent", [&] {
    impl_->execute("INSERT INTO effect (owner, kind, name, state) VALUES (?, ?, ?, ?)",
                   impl_->owner_id(owner), to_string(kind), std::string(name), std::string(state));
    return impl_->database.getLastInsertRowid();
  });
}

void LeaseJournal::done(std::int64_t id) {
  impl_->change("journal an outcome",
                [&] { return impl_->execute("UPDATE effect SET done = 1 WHERE id = ?", id); });
}

void LeaseJournal::undone(std::int64_t id) {
  impl_->change("journal an undoing", [&] { return impl_->execute("DELETE FROM effect WHERE id = ?", id); });
}

std::vector<Effect> LeaseJournal::effects() const {
  const auto sql = fmt::format(
      "SELECT e.id, e.kind, e.name, e.done, e.state, {} FROM effect e "
      "JOIN owner o ON o.id = e.owner ORDER BY e.id DESC",
      owner_columns);
  constexpr int owner_at = 5;
  return impl_->rows(sql, [](SQLite::Statement& row) {
    return Effect{row.getColumn(0).getInt64(),
                  read_owner(row, owner_at),
                  parse_effect_kind(row.getColumn(1).getString()),
                  row.getColumn(2).getString(),
                  row.getColumn(3).getInt() != 0,
                  row.getColumn(4).getString()};
  });
}

std::vector<LeaseJournal::Lease> LeaseJournal::leases() const {
  const auto sql = fmt::format(
      "SELECT l.resource, {} FROM lease l JOIN owner o ON o.id = l.owner ORDER BY l.resource", owner_columns);
  return impl_->rows(sql, [](SQLite::Statement& row) {
    return Lease{row.getColumn(0).getString(), read_owner(row, 1)};
  });
}

std::vector<int> LeaseJournal::leased_cores() const {
  constexpr std::string_view prefix = "core:";
  std::vector<int> cores;
  for (const auto& lease : leases()) {
    if (!lease.resource.starts_with(prefix) || !lives_here(lease.owner)) { continue; }
    if (const auto core = parse_integer(lease.resource.substr(prefix.size()))) {
      cores.push_back(static_cast<int>(*core));
    }
  }
  return cores;
}

std::map<std::string, Owner> LeaseJournal::device_owners() const {
  std::map<std::string, Owner> owners;
  for (const auto& lease : leases()) {
    const bool may_be_here = lease.owner.boot_id == boot_id() || !is_alive(lease.owner);
    if (lease.resource.starts_with(claim_prefix_of_devices) && may_be_here) {
      owners[lease.resource.substr(claim_prefix_of_devices.size())] = lease.owner;
    }
  }
  return owners;
}

void LeaseJournal::quarantine(const std::string& address, const std::string& reason) {
  impl_->change("put a device in quarantine", [&] {
    return impl_->execute(
        "INSERT INTO quarantine (address, reason, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", address,
        reason, iso8601(wall_ns()));
  });
}

bool LeaseJournal::lift_quarantine(const std::string& address) {
  return impl_->change("lift a quarantine", [&] {
    return impl_->execute("DELETE FROM quarantine WHERE address = ?", address) > 0;
  });
}

std::vector<Quarantine> LeaseJournal::quarantined() const {
  return impl_->rows("SELECT address, reason, since FROM quarantine ORDER BY address",
                     [](SQLite::Statement& row) {
                       return Quarantine{row.getColumn(0).getString(), row.getColumn(1).getString(),
                                         row.getColumn(2).getString()};
                     });
}

std::vector<Owner> LeaseJournal::owners() const {
  return impl_->rows(fmt::format("SELECT {} FROM owner o ORDER BY o.id", owner_columns),
                     [](SQLite::Statement& row) { return read_owner(row, 0); });
}

EffectKind parse_effect_kind(std::string_view word) {
  if (const auto kind = enum_of<EffectKind>(word)) { return *kind; }
  throw Error("read the lease journal", ErrorCode::bad_input,
              fmt::format("it has a lease of a kind that this virtrain does not know, {}; run clean of the "
                          "version that made it",
                          excerpt(word)));
}

}  // namespace virtrain::vmctl
