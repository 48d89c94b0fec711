-- A version 1 database as it was written, by "sqlite3 FILE .dump" and its two marks. Never change it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
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
INSERT INTO experiment VALUES(1,'old','quickstart',NULL,NULL,'2026-11-01T00:00:00.000Z',NULL,'finished',NULL,NULL,NULL,NULL,NULL,NULL);
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
) STRICT;
INSERT INTO trial VALUES(1,1,1,'one-vm','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',101.49999999999999999,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(2,1,2,'one-vm','bare_metal',1,1,0,NULL,NULL,NULL,NULL,NULL,0,'failed',NULL,NULL,NULL,NULL,1,NULL,'boot','no hello',NULL);
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
  agent_ready_seconds          REAL CHECK (agent_ready_seconds >= 0 AND agent_ready_seconds < 9e999),
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
INSERT INTO fingerprint VALUES(1,NULL,'kernel','6.1.0');
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
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('experiment',1);
CREATE UNIQUE INDEX trial_pair ON trial (experiment_number, "case", arm, pair) WHERE pair IS NOT NULL;
CREATE INDEX trial_experiment ON trial (experiment_number);
CREATE UNIQUE INDEX fingerprint_experiment ON fingerprint (experiment_number, key) WHERE node_id IS NULL;
CREATE UNIQUE INDEX fingerprint_node ON fingerprint (node_id, key) WHERE node_id IS NOT NULL;
CREATE INDEX sample_rank ON sample (rank_id);
CREATE INDEX telemetry_node ON telemetry (node_id);
CREATE INDEX event_experiment ON event (experiment_number);
CREATE INDEX event_trial ON event (trial_id);
CREATE VIEW v_trial AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node,
       t.images_per_second, t.status, t.virtualization, t.valid, t.invalid_reason, t.started_at
FROM trial t JOIN experiment e ON e.number = t.experiment_number;
CREATE VIEW v_tenant AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, n.tenant_index AS tenant,
       n.name, n.nodes, n.images_per_second, n.network_bytes_required, n.network_bytes_measured, n.loss_first,
       n.loss_last, n.transport, n.workload, t.status, t.valid
FROM tenant n JOIN trial t ON t.id = n.trial_id JOIN experiment e ON e.number = t.experiment_number;
CREATE VIEW v_node AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node, n.kind,
       n.domain_name, n.domain_uuid, n.guest_boot_id, n.hostname, n.cores, n.memory_bytes, n.numa_node,
       n.cpuset_read_back, n.memory_limit_read_back_bytes, n.clock_offset_ns, n.clock_uncertainty_ns, n.kernel,
       n.console_log, n.helper_cpu_seconds, n.agent_ready_seconds
FROM node n JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;
CREATE VIEW v_rank AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, r.node, r.rank,
       r.local_rank, r.size, r.hostname, r.pid, r.isa, r.threads, r.images_per_second, r.parameters_hash_before,
       r.parameters_hash_after, r.loss_first, r.loss_last, r.peak_rss_bytes, r.cpuset_read_back,
       r.memory_limit_read_back_bytes, r.step_p50_seconds, r.step_p95_seconds, r.step_p99_seconds,
       r.exposed_allreduce_seconds
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;
CREATE VIEW v_speedup AS
WITH level AS (
  SELECT experiment, scenario, label, "case", arm, nodes,
         substr("case", 1, length("case") - length('/' || nodes)) AS family,
         count(*) AS runs, avg(images_per_second) AS images_per_second
  FROM v_trial
  WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL AND "case" LIKE '%/' || nodes
  GROUP BY experiment, "case", arm, nodes
)
SELECT n.experiment, n.scenario, n.label, n."case", n.arm, n.nodes, n.runs, n.images_per_second,
       n.images_per_second / one.images_per_second AS speedup,
       n.images_per_second / one.images_per_second / n.nodes AS efficiency
FROM level n JOIN level one
  ON one.experiment = n.experiment AND one.arm = n.arm AND one.family = n.family AND one.nodes = 1;
CREATE VIEW v_vm_vs_bare_metal AS
SELECT experiment, scenario, label, "case", pair,
       avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS bare_metal_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm') AS vm_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm')
         / avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS ratio,
       max(virtualization) FILTER (WHERE arm = 'vm') AS virtualization
FROM v_trial
WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL AND arm IN ('bare_metal', 'vm')
GROUP BY experiment, "case", pair
HAVING count(DISTINCT arm) = 2;
COMMIT;
PRAGMA application_id = 1987334739;
PRAGMA user_version = 1;
