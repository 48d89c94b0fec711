-- A version 9 database, by scripts/reference/make_old_databases.py. Never change it.
BEGIN TRANSACTION;
CREATE TABLE acknowledgement (
  change          TEXT PRIMARY KEY CHECK (change <> ''),
  why             TEXT NOT NULL CHECK (why <> ''),
  acknowledged_at TEXT NOT NULL
) STRICT;
INSERT INTO "acknowledgement" VALUES('00000000','known: it''s the "new" normal','2026-10-18T08:00:00Z');
CREATE TABLE event (
  experiment_number INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  trial_id          INTEGER REFERENCES trial (id) ON DELETE CASCADE,
  t_ns              INTEGER NOT NULL,
  wall_time         TEXT,
  stage             TEXT,
  message           TEXT NOT NULL,
  detail            TEXT CHECK (detail IS NULL OR json_valid(detail))
) STRICT;
INSERT INTO "event" VALUES(1,1,99,NULL,'run','stage run','{"a":1}');
INSERT INTO "event" VALUES(1,2,99,NULL,'run','stage run','{"a":1}');
INSERT INTO "event" VALUES(18,35,99,NULL,'run','stage run','{"a":1}');
INSERT INTO "event" VALUES(18,36,99,NULL,'run','stage run','{"a":1}');
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
INSERT INTO "experiment" VALUES(1,'n00','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-01T02:00:00.000Z','2026-10-01T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(2,'n01','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-02T02:00:00.000Z','2026-10-02T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(3,'n02','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-03T02:00:00.000Z','2026-10-03T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(4,'n03','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-04T02:00:00.000Z','2026-10-04T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(5,'n04','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-05T02:00:00.000Z','2026-10-05T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(6,'n05','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-06T02:00:00.000Z','2026-10-06T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(7,'n06','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-07T02:00:00.000Z','2026-10-07T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(8,'n07','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-08T02:00:00.000Z','2026-10-08T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(9,'n08','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-09T02:00:00.000Z','2026-10-09T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(10,'n09','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-10T02:00:00.000Z','2026-10-10T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(11,'n10','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-11T02:00:00.000Z','2026-10-11T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(12,'n11','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-12T02:00:00.000Z','2026-10-12T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(13,'n12','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-13T02:00:00.000Z','2026-10-13T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(14,'n13','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-14T02:00:00.000Z','2026-10-14T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(15,'n14','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-4','2026-10-15T02:00:00.000Z','2026-10-15T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(16,'n15','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-5','2026-10-16T02:00:00.000Z','2026-10-16T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(17,'n16','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-5','2026-10-17T02:00:00.000Z','2026-10-17T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(18,'n17','nightly','name: nightly
workload: {steps: 2}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
','mpi-5','2026-10-18T02:00:00.000Z','2026-10-18T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO "experiment" VALUES(19,'crashed','nightly',NULL,NULL,NULL,NULL,'interrupted',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE fingerprint (
  experiment_number INTEGER REFERENCES experiment (number) ON DELETE CASCADE,
  node_id           INTEGER REFERENCES node (id) ON DELETE CASCADE,
  key               TEXT NOT NULL,
  value             TEXT NOT NULL,
  CHECK ((experiment_number IS NULL) <> (node_id IS NULL))
) STRICT;
INSERT INTO "fingerprint" VALUES(1,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(NULL,1,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(NULL,2,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(2,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(3,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(4,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(5,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(6,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(7,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(8,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(9,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(10,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(11,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(12,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(13,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(14,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(15,NULL,'kernel','6.1.0');
INSERT INTO "fingerprint" VALUES(16,NULL,'kernel','6.1.5');
INSERT INTO "fingerprint" VALUES(17,NULL,'kernel','6.1.5');
INSERT INTO "fingerprint" VALUES(18,NULL,'kernel','6.1.5');
INSERT INTO "fingerprint" VALUES(NULL,3,'kernel','6.1.5');
INSERT INTO "fingerprint" VALUES(NULL,4,'kernel','6.1.5');
CREATE TABLE import_file (
  sha256      TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  name        TEXT NOT NULL,
  imported_at TEXT NOT NULL
) STRICT;
INSERT INTO "import_file" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','old.jsonl','2026-10-01T00:00:00Z');
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
INSERT INTO "node" VALUES(1,1,'t1n1','slice',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,NULL);
INSERT INTO "node" VALUES(2,2,'t1n1','vm',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,'<domain/>');
INSERT INTO "node" VALUES(3,3,'t1n1','slice',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,NULL);
INSERT INTO "node" VALUES(4,4,'t1n1','vm',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,'<domain/>');
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
INSERT INTO "probe" VALUES(1,'triad','bare_metal',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(1,'triad','vm',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(18,'triad','bare_metal',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(18,'triad','vm',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
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
INSERT INTO "rank" VALUES(1,1,'t1n1',0,0,1,'t1n1',77,'avx2',2,1000.0,NULL,NULL,7.5,1.0e-300,123456789,NULL,NULL,0.1,NULL,0.3,NULL);
INSERT INTO "rank" VALUES(2,2,'t1n1',0,0,1,'t1n1',77,'avx2',2,950.0,NULL,NULL,7.5,1.0e-300,123456789,NULL,NULL,0.1,NULL,0.3,NULL);
INSERT INTO "rank" VALUES(3,3,'t1n1',0,0,1,'t1n1',77,'avx2',2,1000.0,NULL,NULL,7.5,1.0e-300,123456789,NULL,NULL,0.1,NULL,0.3,NULL);
INSERT INTO "rank" VALUES(4,4,'t1n1',0,0,1,'t1n1',77,'avx2',2,855.0,NULL,NULL,7.5,1.0e-300,123456789,NULL,NULL,0.1,NULL,0.3,NULL);
CREATE TABLE sample (
  rank_id INTEGER NOT NULL REFERENCES rank (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  step    INTEGER NOT NULL CHECK (step >= 0),
  images  INTEGER NOT NULL CHECK (images > 0),
  seconds REAL NOT NULL CHECK (seconds > 0 AND seconds < 9e999),
  loss    REAL CHECK (abs(loss) < 9e999)
) STRICT;
INSERT INTO "sample" VALUES(1,1000,0,4,0.1,3.33333333333333314829e-01);
INSERT INTO "sample" VALUES(1,1001,1,4,4.33333333333333348136e-01,0.25);
INSERT INTO "sample" VALUES(1,1002,2,4,7.66666666666666607454e-01,0.2);
INSERT INTO "sample" VALUES(2,1000,0,4,0.1,3.33333333333333314829e-01);
INSERT INTO "sample" VALUES(2,1001,1,4,4.33333333333333348136e-01,0.25);
INSERT INTO "sample" VALUES(2,1002,2,4,7.66666666666666607454e-01,0.2);
INSERT INTO "sample" VALUES(3,1000,0,4,0.1,3.33333333333333314829e-01);
INSERT INTO "sample" VALUES(3,1001,1,4,4.33333333333333348136e-01,0.25);
INSERT INTO "sample" VALUES(3,1002,2,4,7.66666666666666607454e-01,0.2);
INSERT INTO "sample" VALUES(4,1000,0,4,0.1,3.33333333333333314829e-01);
INSERT INTO "sample" VALUES(4,1001,1,4,4.33333333333333348136e-01,0.25);
INSERT INTO "sample" VALUES(4,1002,2,4,7.66666666666666607454e-01,0.2);
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
INSERT INTO "security_probe" VALUES(1,'bare_metal','host_files','tenant-b at the host','leak',1,4096.0,8192.5,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO "security_probe" VALUES(1,'vm','host_files','tenant-b at the host','leak',1,4096.0,8192.5,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO "security_probe" VALUES(18,'bare_metal','host_files','tenant-b at the host','leak',1,4096.0,8192.5,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO "security_probe" VALUES(18,'vm','host_files','tenant-b at the host','leak',1,4096.0,8192.5,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
CREATE TABLE telemetry (
  node_id INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  source  TEXT NOT NULL CHECK (source IN ('guest', 'host')),
  metric  TEXT NOT NULL CHECK (metric <> ''),
  value   REAL NOT NULL CHECK (abs(value) < 9e999)
) STRICT;
INSERT INTO "telemetry" VALUES(1,1000,'guest','cpu',0.0);
INSERT INTO "telemetry" VALUES(1,1001,'guest','cpu',1.42857142857142849212e-01);
INSERT INTO "telemetry" VALUES(1,1002,'guest','cpu',2.85714285714285698425e-01);
INSERT INTO "telemetry" VALUES(2,1000,'guest','cpu',0.0);
INSERT INTO "telemetry" VALUES(2,1001,'guest','cpu',1.42857142857142849212e-01);
INSERT INTO "telemetry" VALUES(2,1002,'guest','cpu',2.85714285714285698425e-01);
INSERT INTO "telemetry" VALUES(3,1000,'guest','cpu',0.0);
INSERT INTO "telemetry" VALUES(3,1001,'guest','cpu',1.42857142857142849212e-01);
INSERT INTO "telemetry" VALUES(3,1002,'guest','cpu',2.85714285714285698425e-01);
INSERT INTO "telemetry" VALUES(4,1000,'guest','cpu',0.0);
INSERT INTO "telemetry" VALUES(4,1001,'guest','cpu',1.42857142857142849212e-01);
INSERT INTO "telemetry" VALUES(4,1002,'guest','cpu',2.85714285714285698425e-01);
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
INSERT INTO "tenant" VALUES(1,1,0,'t1','{"steps":2}',1,1000.0,10,12,7.5,-0.25,'self');
INSERT INTO "tenant" VALUES(2,2,0,'t1','{"steps":2}',1,950.0,10,12,7.5,-0.25,'self');
INSERT INTO "tenant" VALUES(3,35,0,'t1','{"steps":2}',1,1000.0,10,12,7.5,-0.25,'self');
INSERT INTO "tenant" VALUES(4,36,0,'t1','{"steps":2}',1,855.0,10,12,7.5,-0.25,'self');
CREATE TABLE transport (
  tenant_id INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  from_node TEXT NOT NULL,
  to_node   TEXT NOT NULL,
  transport TEXT NOT NULL,
  PRIMARY KEY (tenant_id, from_node, to_node)
) STRICT;
INSERT INTO "transport" VALUES(1,'t1n1','t1n1','self');
INSERT INTO "transport" VALUES(2,'t1n1','t1n1','self');
INSERT INTO "transport" VALUES(3,'t1n1','t1n1','self');
INSERT INTO "transport" VALUES(4,'t1n1','t1n1','self');
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
INSERT INTO "trial" VALUES(1,1,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-01T02:00:00.000Z','2026-10-01T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,'{"driver":"470.82.01"}');
INSERT INTO "trial" VALUES(2,1,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-01T02:00:00.000Z','2026-10-01T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(3,2,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00099999999999988628e+03,'2026-10-02T02:00:00.000Z','2026-10-02T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(4,2,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.50949999999999931801e+02,'2026-10-02T02:00:00.000Z','2026-10-02T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(5,3,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-03T02:00:00.000Z','2026-10-03T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(6,3,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.9,'2026-10-03T02:00:00.000Z','2026-10-03T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(7,4,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00299999999999988632e+03,'2026-10-04T02:00:00.000Z','2026-10-04T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(8,4,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.52849999999999909029e+02,'2026-10-04T02:00:00.000Z','2026-10-04T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(9,5,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-05T02:00:00.000Z','2026-10-05T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(10,5,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-05T02:00:00.000Z','2026-10-05T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(11,6,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00099999999999988628e+03,'2026-10-06T02:00:00.000Z','2026-10-06T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(12,6,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.50949999999999931801e+02,'2026-10-06T02:00:00.000Z','2026-10-06T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(13,7,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-07T02:00:00.000Z','2026-10-07T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(14,7,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.9,'2026-10-07T02:00:00.000Z','2026-10-07T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(15,8,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00299999999999988632e+03,'2026-10-08T02:00:00.000Z','2026-10-08T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(16,8,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.52849999999999909029e+02,'2026-10-08T02:00:00.000Z','2026-10-08T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(17,9,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-09T02:00:00.000Z','2026-10-09T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(18,9,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-09T02:00:00.000Z','2026-10-09T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(19,10,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00099999999999988628e+03,'2026-10-10T02:00:00.000Z','2026-10-10T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(20,10,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.50949999999999931801e+02,'2026-10-10T02:00:00.000Z','2026-10-10T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(21,11,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-11T02:00:00.000Z','2026-10-11T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(22,11,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.9,'2026-10-11T02:00:00.000Z','2026-10-11T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(23,12,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00299999999999988632e+03,'2026-10-12T02:00:00.000Z','2026-10-12T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(24,12,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.52849999999999909029e+02,'2026-10-12T02:00:00.000Z','2026-10-12T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(25,13,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-13T02:00:00.000Z','2026-10-13T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(26,13,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-13T02:00:00.000Z','2026-10-13T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(27,14,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00099999999999988628e+03,'2026-10-14T02:00:00.000Z','2026-10-14T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(28,14,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',9.50949999999999931801e+02,'2026-10-14T02:00:00.000Z','2026-10-14T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(29,15,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-15T02:00:00.000Z','2026-10-15T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(30,15,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.9,'2026-10-15T02:00:00.000Z','2026-10-15T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(31,16,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00299999999999988632e+03,'2026-10-16T02:00:00.000Z','2026-10-16T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(32,16,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',8.57564999999999940868e+02,'2026-10-16T02:00:00.000Z','2026-10-16T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(33,17,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-17T02:00:00.000Z','2026-10-17T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(34,17,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',855.0,'2026-10-17T02:00:00.000Z','2026-10-17T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(35,18,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1.00099999999999988628e+03,'2026-10-18T02:00:00.000Z','2026-10-18T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(36,18,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',8.55854999999999904464e+02,'2026-10-18T02:00:00.000Z','2026-10-18T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(37,19,NULL,'one','vm',1,1,0,NULL,NULL,NULL,NULL,NULL,0,'failed',NULL,NULL,NULL,NULL,1,NULL,'boot','no hello …','panic
',NULL);
CREATE UNIQUE INDEX trial_pair ON trial (experiment_number, "case", arm, pair) WHERE pair IS NOT NULL;
CREATE INDEX trial_experiment ON trial (experiment_number);
CREATE UNIQUE INDEX fingerprint_experiment ON fingerprint (experiment_number, key) WHERE node_id IS NULL;
CREATE UNIQUE INDEX fingerprint_node ON fingerprint (node_id, key) WHERE node_id IS NOT NULL;
CREATE INDEX sample_rank ON sample (rank_id);
CREATE INDEX telemetry_node ON telemetry (node_id);
CREATE INDEX event_experiment ON event (experiment_number);
CREATE INDEX event_trial ON event (trial_id);
CREATE INDEX probe_experiment ON probe (experiment_number);
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
CREATE INDEX security_probe_experiment ON security_probe (experiment_number);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('experiment',19);
COMMIT;
PRAGMA application_id = 1987334739;
PRAGMA user_version = 9;
