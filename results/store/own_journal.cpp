#include "results/store/own_journal.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "common/system/file_trust.h"

namespace virtrain::results {
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

/// Whether a file beside a database is there and of whom its content may come. A second name could be a link
/// to a file of ours that was never meant for this.
bool is_own(const std::string& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) { return false; }
  struct stat database {};
  const bool is_owners =
      ::lstat(database_of(file).c_str(), &database) == 0 && status.st_uid == database.st_uid;
  return S_ISREG(status.st_mode) && status.st_nlink <= 1 && (is_owners || is_trusted_owner(status.st_uid));
}

bool is_absent(const std::string& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) != 0 && errno == ENOENT;
}

/// Takes away the empty journal that another writer of a database in a shared folder has left.
void remove_empty(const std::string& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0) {
    ::unlink(file.c_str());
  }
}

/// Of a journal's name. What is swapped meanwhile is found by looking again behind the opening: nobody else
/// can put a file of ours there.
int open_journal(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  const bool makes = (flags & SQLITE_OPEN_CREATE) != 0;
  if (makes && !is_own(name)) { remove_empty(name); }
  if (is_absent(name) && !makes) { return SQLITE_CANTOPEN; }
  if (!is_absent(name) && !is_own(name)) { return SQLITE_AUTH; }
  const int status = usual_vfs()->xOpen(vfs, name, file, flags, out_flags);
  if (status != SQLITE_OK || is_own(name)) { return status; }
  file->pMethods->xClose(file);
  file->pMethods = nullptr;
  return SQLITE_AUTH;
}

int open_own(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // SQLite then closes nothing
  if ((flags & SQLITE_OPEN_SUPER_JOURNAL) != 0) { return SQLITE_AUTH; }
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    const auto shared = database_of(name) + "-shm";
    if (!is_absent(shared) && !is_own(shared)) { return SQLITE_AUTH; }
  }
  if ((flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0) {
    return open_journal(vfs, name, file, flags, out_flags);
  }
  return usual_vfs()->xOpen(vfs, name, file, flags, out_flags);
}

}  // namespace

const char* own_journal_vfs() {
  static sqlite3_vfs own = *usual_vfs();
  static const int status = [] {
    own.zName = vfs_name;
    own.pNext = nullptr;
    own.xOpen = open_own;
    return ::sqlite3_vfs_register(&own, 0);
  }();
  return status == SQLITE_OK ? vfs_name : usual_vfs()->zName;
}

}  // namespace virtrain::results
