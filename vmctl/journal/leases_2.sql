-- Devices: what has to be put back travels with the effect; what could not be put back is in quarantine.
ALTER TABLE effect ADD COLUMN state TEXT NOT NULL DEFAULT '';

CREATE TABLE quarantine (
  address TEXT PRIMARY KEY,
  reason  TEXT NOT NULL,
  since   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 2;
