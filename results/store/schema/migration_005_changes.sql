-- Version 5: changes of level that somebody took for the new normal. A change is known by its id (docs/nightly.md), for it
-- is found again each time, and only what people said of it is stored.
CREATE TABLE acknowledgement (
  change          TEXT PRIMARY KEY CHECK (change <> ''),
  why             TEXT NOT NULL CHECK (why <> ''),
  acknowledged_at TEXT NOT NULL
) STRICT;
