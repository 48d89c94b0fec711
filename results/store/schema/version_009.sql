-- The schema of version 9, which virtrain 0.2.0 writes: word for word, for a file is known as virtrain's by its text. An
-- empty text is never stored: unknown is NULL. Times are CLOCK_MONOTONIC nanoseconds of the host (t_ns) or ISO 8601 text of
-- the wall clock. "< 9e999" keeps infinity out.
CREATE TABLE experiment (
  number          INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE CHECK (id <> ''),
  scenario        TEXT NOT NULL CHECK (scenario <> ''),
  scenario_text   TEXT,
  label           TEXT,
  started_at      TEXT,
  ended_at        TEXT,
  status          TEXT NOT NULL CHECK (status IN ('running', 'finished', 'failed', 'interrupted')),
  host_name       TEXT,
  boot_id         TEXT,
  virtrain_version TEXT,
  command_line    TEXT,
  plan            TEXT CHECK (plan IS NULL OR json_valid(plan)),
  daemon_versions TEXT CHECK (daemon_versions IS NULL OR json_valid(daemon_versions))
) STRICT;

CREATE TABLE trial (
  id                INTEGER PRIMARY KEY,
  experiment_number INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  trial_order       INTEGER,
  "case"            TEXT NOT NULL CHECK ("case" <> ''),
  arm               TEXT NOT NULL CHECK (arm <> ''),
  pair              INTEGER CHECK (pair >= 0),
  nodes             INTEGER NOT NULL CHECK (nodes >= 1),
  gpus_per_node     INTEGER NOT NULL CHECK (gpus_per_node >= 0),
  ranks_per_node    INTEGER CHECK (ranks_per_node >= 1),
  batch_size        INTEGER CHECK (batch_size >= 1),
  precision         TEXT,
  backend           TEXT,
  virtualization    TEXT CHECK (virtualization IN ('none', 'kvm', 'kvm_nested', 'kvm_on_emulated', 'tcg')),
  oversubscribed    INTEGER NOT NULL DEFAULT 0 CHECK (oversubscribed IN (0, 1)),
  status            TEXT NOT NULL CHECK (status IN ('running', 'finished', 'failed', 'interrupted')),
  images_per_second REAL CHECK (images_per_second > 0 AND images_per_second < 9e999),
  started_at        TEXT,
  ended_at          TEXT,
  start_spread_ns   INTEGER CHECK (start_spread_ns >= 0),
  valid             INTEGER NOT NULL DEFAULT 1 CHECK (valid IN (0, 1)),
  invalid_reason    TEXT,
  failed_stage      TEXT,
  failure_reason    TEXT,
  console_tail      TEXT
, environment TEXT CHECK (environment IS NULL OR json_valid(environment))) STRICT;

CREATE TABLE tenant (
  id                     INTEGER PRIMARY KEY,
  trial_id               INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE,
  tenant_index           INTEGER NOT NULL CHECK (tenant_index >= 0),
  name                   TEXT,
  workload               TEXT CHECK (workload IS NULL OR json_valid(workload)),
  nodes                  INTEGER NOT NULL CHECK (nodes >= 1),
  images_per_second      REAL CHECK (images_per_second > 0 AND images_per_second < 9e999),
  network_bytes_required INTEGER CHECK (network_bytes_required >= 0),
  network_bytes_measured INTEGER CHECK (network_bytes_measured >= 0),
  loss_first             REAL CHECK (abs(loss_first) < 9e999),
  loss_last              REAL CHECK (abs(loss_last) < 9e999),
  transport              TEXT,
  UNIQUE (trial_id, tenant_index)
) STRICT;

CREATE TABLE node (
  id                           INTEGER PRIMARY KEY,
  tenant_id                    INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  name                         TEXT NOT NULL CHECK (name <> ''),
  kind                         TEXT NOT NULL CHECK (kind IN ('vm', 'slice')),
  domain_name                  TEXT,
  domain_uuid                  TEXT,
  guest_boot_id                TEXT,
  hostname                     TEXT,
  cores                        TEXT,
  memory_bytes                 INTEGER CHECK (memory_bytes > 0),
  numa_node                    INTEGER CHECK (numa_node >= 0),
  cpuset_read_back             TEXT,
  memory_limit_read_back_bytes INTEGER CHECK (memory_limit_read_back_bytes > 0),
  clock_offset_ns              INTEGER,
  clock_uncertainty_ns         INTEGER CHECK (clock_uncertainty_ns >= 0),
  kernel                       TEXT,
  console_log                  TEXT,
  helper_cpu_seconds           REAL CHECK (helper_cpu_seconds >= 0 AND helper_cpu_seconds < 9e999),
  agent_ready_seconds          REAL CHECK (agent_ready_seconds >= 0 AND agent_ready_seconds < 9e999), domain_xml TEXT,
  UNIQUE (tenant_id, name)
) STRICT;

CREATE TABLE rank (
  id                           INTEGER PRIMARY KEY,
  tenant_id                    INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  node                         TEXT,
  rank                         INTEGER NOT NULL CHECK (rank >= 0),
  local_rank                   INTEGER NOT NULL CHECK (local_rank >= 0),
  size                         INTEGER NOT NULL CHECK (size >= 1),
  hostname                     TEXT,
  pid                          INTEGER CHECK (pid > 0),
  isa                          TEXT,
  threads                      INTEGER CHECK (threads > 0),
  images_per_second            REAL CHECK (images_per_second > 0 AND images_per_second < 9e999),
  parameters_hash_before       TEXT,
  parameters_hash_after        TEXT,
  loss_first                   REAL CHECK (abs(loss_first) < 9e999),
  loss_last                    REAL CHECK (abs(loss_last) < 9e999),
  peak_rss_bytes               INTEGER CHECK (peak_rss_bytes >= 0),
  cpuset_read_back             TEXT,
  memory_limit_read_back_bytes INTEGER CHECK (memory_limit_read_back_bytes > 0),
  step_p50_seconds             REAL CHECK (step_p50_seconds > 0 AND step_p50_seconds < 9e999),
  step_p95_seconds             REAL CHECK (step_p95_seconds > 0 AND step_p95_seconds < 9e999),
  step_p99_seconds             REAL CHECK (step_p99_seconds > 0 AND step_p99_seconds < 9e999),
  exposed_allreduce_seconds    REAL CHECK (exposed_allreduce_seconds >= 0 AND exposed_allreduce_seconds < 9e999),
  UNIQUE (tenant_id, rank)
) STRICT;

CREATE TABLE transport (
  tenant_id INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  from_node TEXT NOT NULL,
  to_node   TEXT NOT NULL,
  transport TEXT NOT NULL,
  PRIMARY KEY (tenant_id, from_node, to_node)
) STRICT;

CREATE TABLE fingerprint (
  experiment_number INTEGER REFERENCES experiment (number) ON DELETE CASCADE,
  node_id           INTEGER REFERENCES node (id) ON DELETE CASCADE,
  key               TEXT NOT NULL,
  value             TEXT NOT NULL,
  CHECK ((experiment_number IS NULL) <> (node_id IS NULL))
) STRICT;

CREATE TABLE sample (
  rank_id INTEGER NOT NULL REFERENCES rank (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  step    INTEGER NOT NULL CHECK (step >= 0),
  images  INTEGER NOT NULL CHECK (images > 0),
  seconds REAL NOT NULL CHECK (seconds > 0 AND seconds < 9e999),
  loss    REAL CHECK (abs(loss) < 9e999)
) STRICT;

CREATE TABLE telemetry (
  node_id INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  source  TEXT NOT NULL CHECK (source IN ('guest', 'host')),
  metric  TEXT NOT NULL CHECK (metric <> ''),
  value   REAL NOT NULL CHECK (abs(value) < 9e999)
) STRICT;

CREATE TABLE event (
  experiment_number INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  trial_id          INTEGER REFERENCES trial (id) ON DELETE CASCADE,
  t_ns              INTEGER NOT NULL,
  wall_time         TEXT,
  stage             TEXT,
  message           TEXT NOT NULL,
  detail            TEXT CHECK (detail IS NULL OR json_valid(detail))
) STRICT;

CREATE TABLE import_file (
  sha256      TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  name        TEXT NOT NULL,
  imported_at TEXT NOT NULL
) STRICT;

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

CREATE TABLE acknowledgement (
  change          TEXT PRIMARY KEY CHECK (change <> ''),
  why             TEXT NOT NULL CHECK (why <> ''),
  acknowledged_at TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX trial_pair ON trial (experiment_number, "case", arm, pair) WHERE pair IS NOT NULL;
CREATE INDEX trial_experiment ON trial (experiment_number);
CREATE UNIQUE INDEX fingerprint_experiment ON fingerprint (experiment_number, key) WHERE node_id IS NULL;
CREATE UNIQUE INDEX fingerprint_node ON fingerprint (node_id, key) WHERE node_id IS NOT NULL;
CREATE INDEX sample_rank ON sample (rank_id);
CREATE INDEX telemetry_node ON telemetry (node_id);
CREATE INDEX event_experiment ON event (experiment_number);
CREATE INDEX event_trial ON event (trial_id);
CREATE INDEX probe_experiment ON probe (experiment_number);
CREATE INDEX security_probe_experiment ON security_probe (experiment_number);

CREATE VIEW v_probe AS
SELECT e.id AS experiment, e.scenario, e.label, p.name, p.arm, p.node, p.transport, p.data_type, p.nodes, p.ranks,
       p.size_bytes, p.seconds, p.value, p.unit, p.bus_bytes_per_second, p.wrong, p.measured_at, p.detail
FROM probe p JOIN experiment e ON e.number = p.experiment_number;

CREATE VIEW v_experiment AS
SELECT e.id AS experiment, e.scenario, e.label, e.status, e.started_at, e.ended_at, e.host_name, e.boot_id,
       e.virtrain_version, e.command_line,
       (SELECT count(*) FROM trial t WHERE t.experiment_number = e.number) AS trials,
       (SELECT count(*) FROM trial t WHERE t.experiment_number = e.number AND t.status = 'finished') AS finished_trials,
       (SELECT count(*) FROM probe p WHERE p.experiment_number = e.number) AS probes
FROM experiment e;

CREATE VIEW v_fact AS
SELECT e.id AS experiment, NULL AS trial_id, NULL AS case_name, NULL AS arm, NULL AS pair, NULL AS tenant, NULL AS node,
       f.key, f.value
FROM fingerprint f JOIN experiment e ON e.number = f.experiment_number
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, w.tenant_index, n.name, f.key, f.value
FROM fingerprint f JOIN node n ON n.id = f.node_id JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_event AS
SELECT e.id AS experiment, v.trial_id, t."case" AS case_name, t.arm, t.pair, v.t_ns, v.wall_time, v.stage, v.message,
       v.detail
FROM event v JOIN experiment e ON e.number = v.experiment_number LEFT JOIN trial t ON t.id = v.trial_id;

CREATE VIEW v_sample AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, w.tenant_index AS tenant, r.rank,
       s.t_ns, s.step, s.images, s.seconds, s.images / s.seconds AS images_per_second, s.loss
FROM sample s JOIN rank r ON r.id = s.rank_id JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_security AS
SELECT e.id AS experiment, e.scenario, e.label, s.arm, s.name, s.tenants, s.result, s.control, s.scanned, s.total, s.unit,
       CASE WHEN s.total > 0 THEN s.scanned / s.total END AS scanned_share, s.found, s.reason, s.virtualization, s.measured_at
FROM security_probe s JOIN experiment e ON e.number = s.experiment_number;

CREATE VIEW v_trial AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node,
       t.images_per_second, t.status, t.virtualization, t.valid, t.invalid_reason, t.started_at, t.id AS trial_id,
       t."case" AS case_name
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_trial_detail AS
SELECT e.id AS experiment, e.scenario, e.label, row_number() OVER (PARTITION BY e.number ORDER BY t.id) AS trial,
       t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node, t.ranks_per_node, t.batch_size, t.precision,
       t.backend, t.virtualization, t.oversubscribed, t.status, t.images_per_second, t.started_at, t.ended_at,
       t.start_spread_ns, t.valid, t.invalid_reason, t.failed_stage, t.failure_reason, t.id AS trial_id,
       t."case" AS case_name
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_tenant AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, n.tenant_index AS tenant,
       n.name, n.nodes, n.images_per_second, n.network_bytes_required, n.network_bytes_measured, n.loss_first,
       n.loss_last, n.transport, n.workload, t.status, t.valid, t.id AS trial_id, t."case" AS case_name
FROM tenant n JOIN trial t ON t.id = n.trial_id JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_node AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node, n.kind,
       n.domain_name, n.domain_uuid, n.guest_boot_id, n.hostname, n.cores, n.memory_bytes, n.numa_node,
       n.cpuset_read_back, n.memory_limit_read_back_bytes, n.clock_offset_ns, n.clock_uncertainty_ns, n.kernel,
       n.console_log, n.helper_cpu_seconds, n.agent_ready_seconds, t.id AS trial_id, t."case" AS case_name
FROM node n JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_rank AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, r.node, r.rank,
       r.local_rank, r.size, r.hostname, r.pid, r.isa, r.threads, r.images_per_second, r.parameters_hash_before,
       r.parameters_hash_after, r.loss_first, r.loss_last, r.peak_rss_bytes, r.cpuset_read_back,
       r.memory_limit_read_back_bytes, r.step_p50_seconds, r.step_p95_seconds, r.step_p99_seconds,
       r.exposed_allreduce_seconds, t.id AS trial_id, t."case" AS case_name
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_telemetry AS
SELECT DISTINCT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node,
       m.source, m.metric, count(*) OVER whole AS readings, min(m.value) OVER whole AS minimum,
       avg(m.value) OVER whole AS mean, max(m.value) OVER whole AS maximum,
       first_value(m.value) OVER whole AS first, last_value(m.value) OVER whole AS last, t.id AS trial_id,
       t."case" AS case_name
FROM telemetry m JOIN node n ON n.id = m.node_id JOIN tenant w ON w.id = n.tenant_id
JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number
WINDOW whole AS (PARTITION BY m.node_id, m.source, m.metric ORDER BY m.t_ns, m.rowid
                 ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

CREATE VIEW v_speedup AS
WITH level AS (
  SELECT experiment, scenario, label, case_name, arm, nodes,
         substr(case_name, 1, length(case_name) - length(CAST(nodes AS TEXT)) - 1) AS family,
         count(*) AS runs, avg(images_per_second) AS images_per_second
  FROM v_trial v
  WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL
    AND substr(case_name, length(case_name) - length(CAST(nodes AS TEXT))) = '/' || CAST(nodes AS TEXT)
    AND (pair IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM experiment e JOIN trial p ON p.experiment_number = e.number
      WHERE e.id = v.experiment AND p."case" = v.case_name AND p.arm = v.arm AND p.pair IS NOT NULL
        AND p.status = 'finished' AND p.valid = 1 AND p.images_per_second IS NOT NULL))
  GROUP BY experiment, scenario, label, case_name, arm, nodes
)
SELECT n.experiment, n.scenario, n.label, n.case_name AS "case", n.arm, n.nodes, n.runs, n.images_per_second,
       n.images_per_second / one.images_per_second AS speedup,
       n.images_per_second / one.images_per_second / n.nodes AS efficiency, n.case_name
FROM level n JOIN level one
  ON one.experiment = n.experiment AND one.arm = n.arm AND one.family = n.family AND one.nodes = 1;

CREATE VIEW v_vm_vs_bare_metal AS
SELECT experiment, scenario, label, case_name AS "case", pair,
       avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS bare_metal_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm') AS vm_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm')
         / avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS ratio,
       max(virtualization) FILTER (WHERE arm = 'vm') AS virtualization, case_name,
       CASE WHEN count(*) FILTER (WHERE arm = 'bare_metal') = 1
            THEN max(trial_id) FILTER (WHERE arm = 'bare_metal') END AS bare_metal_trial_id,
       CASE WHEN count(*) FILTER (WHERE arm = 'vm') = 1 THEN max(trial_id) FILTER (WHERE arm = 'vm') END AS vm_trial_id
FROM v_trial v
WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL AND arm IN ('bare_metal', 'vm')
  AND (pair IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM experiment e JOIN trial p ON p.experiment_number = e.number
    WHERE e.id = v.experiment AND p."case" = v.case_name AND p.arm IN ('bare_metal', 'vm') AND p.pair IS NOT NULL
      AND p.status = 'finished' AND p.valid = 1 AND p.images_per_second IS NOT NULL))
GROUP BY experiment, scenario, label, case_name, pair
HAVING count(DISTINCT arm) = 2;
