-- The host's journal of leases and side effects. Each owner is one process of one boot.
CREATE TABLE IF NOT EXISTS owner (
  id         INTEGER PRIMARY KEY,
  pid        INTEGER NOT NULL CHECK (pid > 0),
  start_time INTEGER NOT NULL,
  boot_id    TEXT NOT NULL,
  experiment TEXT NOT NULL,
  results_db TEXT NOT NULL,
  UNIQUE (pid, start_time, boot_id, experiment)
) STRICT;

CREATE TABLE IF NOT EXISTS lease (
  resource TEXT PRIMARY KEY,
  owner    INTEGER NOT NULL REFERENCES owner (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS effect (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  owner INTEGER NOT NULL REFERENCES owner (id) ON DELETE CASCADE,
  kind  TEXT NOT NULL,
  name  TEXT NOT NULL,
  done  INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1))
) STRICT;
CREATE INDEX IF NOT EXISTS effect_owner ON effect (owner);
