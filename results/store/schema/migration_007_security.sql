-- Version 7: security probes. One tenant looks for what is another's; a control that is planted must be found in the same session.
CREATE TABLE security_probe (
  experiment_number INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  arm               TEXT NOT NULL CHECK (arm <> ''),
  name              TEXT NOT NULL CHECK (name <> ''),
  tenants           TEXT,
  result            TEXT NOT NULL CHECK (result IN ('not_found', 'leak', 'inconclusive', 'not_possible')),
  control           INTEGER CHECK (control IN (0, 1)),
  scanned           REAL CHECK (scanned >= 0 AND scanned < 9e999),
  total             REAL CHECK (total >= 0 AND total < 9e999),
  unit              TEXT CHECK (unit IN ('B', 'targets', 'files')),
  found             TEXT,
  reason            TEXT,
  virtualization    TEXT,
  measured_at       TEXT,
  CHECK (result <> 'not_found' OR control = 1)
) STRICT;
CREATE INDEX security_probe_experiment ON security_probe (experiment_number);

CREATE VIEW v_security AS
SELECT e.id AS experiment, e.scenario, e.label, s.arm, s.name, s.tenants, s.result, s.control, s.scanned, s.total, s.unit,
       CASE WHEN s.total > 0 THEN s.scanned / s.total END AS scanned_share, s.found, s.reason, s.virtualization, s.measured_at
FROM security_probe s JOIN experiment e ON e.number = s.experiment_number;
