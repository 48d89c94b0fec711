-- Version 2: data that came from elsewhere. `environment` is what the record said about where it was measured;
-- import_file remembers each imported file by the SHA-256 of its bytes, so that none counts twice.
ALTER TABLE trial ADD COLUMN environment TEXT CHECK (environment IS NULL OR json_valid(environment));

CREATE TABLE import_file (
  sha256      TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  name        TEXT NOT NULL,
  imported_at TEXT NOT NULL
) STRICT;
