#include "results/store/own_journal.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "common/files/open_folder.h"

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
