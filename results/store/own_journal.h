#pragma once

namespace virtrain::results {

/// Name of a VFS for SQLite: its usual one, except that what it plays back beside a database (FILE-journal,
/// FILE-wal) must belong to us, to root or to the database's owner, and that it removes no other file, as a
/// journal may ask it to: anybody who can write to the folder could plant one. Refuses with SQLITE_AUTH. It
/// opens regular files only and never waits for one, whoever exchanges a database for a FIFO meanwhile.
const char* own_journal_vfs();

}  // namespace virtrain::results
