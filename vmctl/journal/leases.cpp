#include "vmctl/journal/leases.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "common/error.h"
#include "common/time.h"
#include "common/unique_fd.h"
#include "common/units.h"
#include "vmctl/process/paths.h"
#include "vmctl/process/process_info.h"
#include "vmctl_embedded.h"

namespace virtrain::vmctl {
namespace {

constexpr std::array<std::pair<EffectKind, const char*>, 17> kinds{{
    {EffectKind::domain, "domain"},
    {EffectKind::network, "network"},
    {EffectKind::bridge, "bridge"},
    {EffectKind::netns, "netns"},
    {EffectKind::veth, "veth"},
    {EffectKind::slice, "slice"},
    {EffectKind::cgroup, "cgroup"},
    {EffectKind::file, "file"},
    {EffectKind::process, "process"},
    {EffectKind::service, "service"},
    {EffectKind::device_settings, "device_settings"},
    {EffectKind::virtual_functions, "virtual_functions"},
    {EffectKind::mdev, "mdev"},
    {EffectKind::vgpu_type, "vgpu_type"},
    {EffectKind::binding, "binding"},
    {EffectKind::guids, "guids"},
    {EffectKind::kvm_device, "kvm_device"},
}};

EffectKind parse_kind(const std::string& word) {
  for (const auto& [kind, name] : kinds) {
    if (word == name) { return kind; }
  }
  return EffectKind::file;
}

constexpr std::string_view device_prefix = "device:";

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
    throw Error(
        operation, locked ? ErrorCode::busy : ErrorCode::io,
        std::string(failure.what()) + " (lease journal" +
            (has_no_locks(failure) ? "; its file system has no locks, as some network file systems: choose a "
                                     "folder on a local disk with VIRTRAIN_STATE_DIR)"
                                   : ")"));
  }
}

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

bool same(const Owner& a, const Owner& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot_id == b.boot_id &&
         a.experiment == b.experiment;
}

}  // namespace

const char* to_string(EffectKind kind) {
  for (const auto& [one, name] : kinds) {
    if (one == kind) { return name; }
  }
  return "unknown";
}

Owner this_process(std::string experiment, std::string results_db) {
  const auto self = process_info(::getpid());
  return {::getpid(), self ? self->start_time : 0, boot_id(), std::move(experiment), std::move(results_db)};
}

bool is_alive(const Owner& owner) {
  if (owner.boot_id != boot_id()) { return false; }
  const auto process = process_info(owner.pid);
  return process && process->start_time == owner.start_time && process->state != 'Z';
}

struct LeaseJournal::Impl {
  explicit Impl(const std::filesystem::path& file)
      : database(closed_to_others(file).string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    constexpr int busy_milliseconds = 10'000;
    database.setBusyTimeout(busy_milliseconds);
    database.exec("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;");
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(std::string(leases_sql));
    constexpr int virtrain_version = 2;
    if (database.execAndGet("PRAGMA user_version").getInt() < virtrain_version) {
      database.exec(std::string(leases_2_sql));
    }
    transaction.commit();
  }

  std::int64_t owner_id(const Owner& owner) {
    SQLite::Statement insert(database,
                             "INSERT INTO owner (pid, start_time, boot_id, experiment, results_db) "
                             "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING");
    insert.bind(1, owner.pid);
    insert.bind(2, static_cast<std::int64_t>(owner.start_time));
    insert.bind(3, owner.boot_id);
    insert.bind(4, owner.experiment);
    insert.bind(5, owner.results_db);
    insert.exec();
    return find_owner(owner);
  }

  std::int64_t find_owner(const Owner& owner) {
    SQLite::Statement find(
        database, "SELECT id FROM owner WHERE pid = ? AND start_time = ? AND boot_id = ? AND experiment = ?");
    find.bind(1, owner.pid);
    find.bind(2, static_cast<std::int64_t>(owner.start_time));
    find.bind(3, owner.boot_id);
    find.bind(4, owner.experiment);
    return find.executeStep() ? find.getColumn(0).getInt64() : 0;
  }

  void refuse_quarantined(const std::string& resource) {
    if (!resource.starts_with(device_prefix)) { return; }
    SQLite::Statement row(database, "SELECT reason, since FROM quarantine WHERE address = ?");
    row.bind(1, resource.substr(device_prefix.size()));
    if (!row.executeStep()) { return; }
    throw Error("lease " + resource, ErrorCode::host_unable,
                fmt::format("in quarantine since {}: {} (when it is well again: virtrain clean "
                            "--lift-quarantine {})",
                            row.getColumn(1).getString(), row.getColumn(0).getString(),
                            resource.substr(device_prefix.size())));
  }

  void take(const std::string& resource, const Owner& owner, std::int64_t id) {
    refuse_quarantined(resource);
    SQLite::Statement holder(
        database, fmt::format("SELECT {} FROM lease l JOIN owner o ON o.id = l.owner WHERE l.resource = ?",
                              owner_columns));
    holder.bind(1, resource);
    if (holder.executeStep()) {
      const Owner held_by = read_owner(holder, 0);
      if (!same(held_by, owner) && is_alive(held_by)) {
        throw Error("lease " + resource, ErrorCode::busy,
                    fmt::format("held by experiment {} (pid {}, results in {})", held_by.experiment,
                                held_by.pid, held_by.results_db));
      }
    }
    SQLite::Statement insert(database, "INSERT OR REPLACE INTO lease (resource, owner) VALUES (?, ?)");
    insert.bind(1, resource);
    insert.bind(2, id);
    insert.exec();
  }

  SQLite::Database database;
};

LeaseJournal::LeaseJournal(const std::filesystem::path& file)
    : impl_(journalled("open the lease journal", [&] {
        return std::make_unique<Impl>(file.empty() ? state_dir() / "leases.db" : file);
      })) {}
LeaseJournal::~LeaseJournal() = default;

void LeaseJournal::acquire(const Owner& owner, const std::vector<std::string>& resources) {
  journalled("lease resources", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    const auto id = impl_->owner_id(owner);
    for (const auto& resource : resources) { impl_->take(resource, owner, id); }
    transaction.commit();
  });
}

void LeaseJournal::release(const Owner& owner, const std::vector<std::string>& resources) {
  journalled("release resources", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    const auto id = impl_->find_owner(owner);
    for (const auto& resource : resources) {
      SQLite::Statement remove(impl_->database, "DELETE FROM lease WHERE resource = ? AND owner = ?");
      remove.bind(1, resource);
      remove.bind(2, id);
      remove.exec();
    }
    transaction.commit();
  });
}

void LeaseJournal::release_all(const Owner& owner) {
  journalled("release everything", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement remove(impl_->database, "DELETE FROM owner WHERE id = ?");
    remove.bind(1, impl_->find_owner(owner));
    remove.exec();
  });
}

void LeaseJournal::end(const Owner& owner) {
  journalled("end a run in the lease journal", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    const auto id = impl_->find_owner(owner);
    SQLite::Statement leases(impl_->database, "DELETE FROM lease WHERE owner = ?");
    leases.bind(1, id);
    leases.exec();
    SQLite::Statement forget(impl_->database,
                             "DELETE FROM owner WHERE id = ? AND id NOT IN (SELECT owner FROM effect)");
    forget.bind(1, id);
    forget.exec();
    transaction.commit();
  });
}

std::int64_t LeaseJournal::intent(const Owner& owner, EffectKind kind, std::string_view name,
                                  std::string_view state) {
  return journalled("journal an intent", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement insert(impl_->database,
                             "INSERT INTO effect (owner, kind, name, state) VALUES (?, ?, ?, ?)");
    insert.bind(1, impl_->owner_id(owner));
    insert.bind(2, to_string(kind));
    insert.bind(3, std::string(name));
    insert.bind(4, std::string(state));
    insert.exec();
    const std::int64_t id = impl_->database.getLastInsertRowid();
    transaction.commit();
    return id;
  });
}

void LeaseJournal::done(std::int64_t id) {
  journalled("journal an outcome", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement update(impl_->database, "UPDATE effect SET done = 1 WHERE id = ?");
    update.bind(1, id);
    update.exec();
  });
}

void LeaseJournal::undone(std::int64_t id) {
  journalled("journal an undoing", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement remove(impl_->database, "DELETE FROM effect WHERE id = ?");
    remove.bind(1, id);
    remove.exec();
  });
}

std::vector<Effect> LeaseJournal::effects() const {
  return journalled("read the lease journal", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement row(impl_->database,
                          fmt::format("SELECT e.id, e.kind, e.name, e.done, e.state, {} FROM effect e "
                                      "JOIN owner o ON o.id = e.owner ORDER BY e.id DESC",
                                      owner_columns));
    std::vector<Effect> found;
    while (row.executeStep()) {
      constexpr int owner_at = 5;
      found.push_back({row.getColumn(0).getInt64(), read_owner(row, owner_at),
                       parse_kind(row.getColumn(1).getString()), row.getColumn(2).getString(),
                       row.getColumn(3).getInt() != 0, row.getColumn(4).getString()});
    }
    return found;
  });
}

std::vector<LeaseJournal::Lease> LeaseJournal::leases() const {
  return journalled("read the lease journal", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement row(impl_->database,
                          fmt::format("SELECT l.resource, {} FROM lease l JOIN owner o ON o.id = l.owner "
                                      "ORDER BY l.resource",
                                      owner_columns));
    std::vector<Lease> found;
    while (row.executeStep()) { found.push_back({row.getColumn(0).getString(), read_owner(row, 1)}); }
    return found;
  });
}

std::vector<int> LeaseJournal::leased_cores() const {
  constexpr std::string_view prefix = "core:";
  std::vector<int> cores;
  for (const auto& lease : leases()) {
    if (!lease.resource.starts_with(prefix) || !is_alive(lease.owner)) { continue; }
    if (const auto core = parse_integer(lease.resource.substr(prefix.size()))) {
      cores.push_back(static_cast<int>(*core));
    }
  }
  return cores;
}

std::map<std::string, Owner> LeaseJournal::device_owners() const {
  std::map<std::string, Owner> owners;
  for (const auto& lease : leases()) {
    if (lease.resource.starts_with(device_prefix)) {
      owners[lease.resource.substr(device_prefix.size())] = lease.owner;
    }
  }
  return owners;
}

void LeaseJournal::quarantine(const std::string& address, const std::string& reason) {
  journalled("put a device in quarantine", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement insert(impl_->database,
                             "INSERT INTO quarantine (address, reason, since) VALUES (?, ?, ?) "
                             "ON CONFLICT DO NOTHING");
    insert.bind(1, address);
    insert.bind(2, reason);
    insert.bind(3, iso8601(wall_ns()));
    insert.exec();
  });
}

bool LeaseJournal::lift_quarantine(const std::string& address) {
  return journalled("lift a quarantine", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement remove(impl_->database, "DELETE FROM quarantine WHERE address = ?");
    remove.bind(1, address);
    return remove.exec() > 0;
  });
}

std::vector<Quarantine> LeaseJournal::quarantined() const {
  return journalled("read the lease journal", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement row(impl_->database, "SELECT address, reason, since FROM quarantine ORDER BY address");
    std::vector<Quarantine> found;
    while (row.executeStep()) {
      found.push_back(
          {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString()});
    }
    return found;
  });
}

std::vector<Owner> LeaseJournal::owners() const {
  return journalled("read the lease journal", [&] {
    const std::scoped_lock lock(mutex_);
    SQLite::Statement row(impl_->database,
                          fmt::format("SELECT {} FROM owner o ORDER BY o.id", owner_columns));
    std::vector<Owner> found;
    while (row.executeStep()) { found.push_back(read_owner(row, 0)); }
    return found;
  });
}

}  // namespace virtrain::vmctl
