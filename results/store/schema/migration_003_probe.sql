-- Version 3: figures of micro-benchmarks. They belong to an experiment and say in which arm they were measured.
CREATE TABLE probe (
  experiment_number    INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  name                 TEXT NOT NULL CHECK (name <> ''),
  arm                  TEXT NOT NULL CHECK (arm <> ''),
  node                 TEXT,
  transport            TEXT,
  data_type            TEXT,
  nodes                INTEGER CHECK (nodes >= 1),
  ranks                INTEGER CHECK (ranks >= 1),
  size_bytes           INTEGER CHECK (size_bytes >= 0),
  seconds              REAL CHECK (seconds > 0 AND seconds < 9e999),
  value                REAL NOT NULL CHECK (value >= 0 AND value < 9e999),
  unit                 TEXT NOT NULL CHECK (unit IN ('B/s', 'FLOP/s', 's')),
  bus_bytes_per_second REAL CHECK (bus_bytes_per_second >= 0 AND bus_bytes_per_second < 9e999),
  wrong                INTEGER CHECK (wrong >= 0),
  measured_at          TEXT,
  detail               TEXT CHECK (detail IS NULL OR json_valid(detail))
) STRICT;
CREATE INDEX probe_experiment ON probe (experiment_number);

CREATE VIEW v_probe AS
SELECT e.id AS experiment, e.scenario, e.label, p.name, p.arm, p.node, p.transport, p.data_type, p.nodes, p.ranks,
       p.size_bytes, p.seconds, p.value, p.unit, p.bus_bytes_per_second, p.wrong, p.measured_at, p.detail
FROM probe p JOIN experiment e ON e.number = p.experiment_number;
