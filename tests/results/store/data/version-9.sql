-- A database as virtrain 0.2.0 leaves it (schema 9): eighteen nights with a loss of 10 % in the last three, rows in every
-- table, and sweeps, sizes and neighbours whose names say all. Never change it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE acknowledgement (
  change          TEXT PRIMARY KEY CHECK (change <> ''),
  why             TEXT NOT NULL CHECK (why <> ''),
  acknowledged_at TEXT NOT NULL
) STRICT;
INSERT INTO acknowledgement VALUES('00000000','known: it''s the "new" normal','2026-10-18T08:00:00Z');
CREATE TABLE event (
  experiment_number INTEGER NOT NULL REFERENCES experiment (number) ON DELETE CASCADE,
  trial_id          INTEGER REFERENCES trial (id) ON DELETE CASCADE,
  t_ns              INTEGER NOT NULL,
  wall_time         TEXT,
  stage             TEXT,
  message           TEXT NOT NULL,
  detail            TEXT CHECK (detail IS NULL OR json_valid(detail))
) STRICT;
INSERT INTO event VALUES(1,1,99,NULL,'run','stage run','{"a":1}');
INSERT INTO event VALUES(1,2,99,NULL,'run','stage run','{"a":1}');
INSERT INTO event VALUES(18,35,99,NULL,'run','stage run','{"a":1}');
INSERT INTO event VALUES(18,36,99,NULL,'run','stage run','{"a":1}');
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
INSERT INTO experiment VALUES(1,'n00','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-01T02:00:00.000Z','2026-10-01T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(2,'n01','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-02T02:00:00.000Z','2026-10-02T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(3,'n02','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-03T02:00:00.000Z','2026-10-03T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(4,'n03','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-04T02:00:00.000Z','2026-10-04T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(5,'n04','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-05T02:00:00.000Z','2026-10-05T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(6,'n05','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-06T02:00:00.000Z','2026-10-06T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(7,'n06','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-07T02:00:00.000Z','2026-10-07T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(8,'n07','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-08T02:00:00.000Z','2026-10-08T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(9,'n08','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-09T02:00:00.000Z','2026-10-09T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(10,'n09','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-10T02:00:00.000Z','2026-10-10T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(11,'n10','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-11T02:00:00.000Z','2026-10-11T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(12,'n11','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-12T02:00:00.000Z','2026-10-12T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(13,'n12','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-13T02:00:00.000Z','2026-10-13T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(14,'n13','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-14T02:00:00.000Z','2026-10-14T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(15,'n14','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-4','2026-10-15T02:00:00.000Z','2026-10-15T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(16,'n15','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-5','2026-10-16T02:00:00.000Z','2026-10-16T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(17,'n16','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-5','2026-10-17T02:00:00.000Z','2026-10-17T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(18,'n17','nightly',replace('name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n','\n',char(10)),'mpi-5','2026-10-18T02:00:00.000Z','2026-10-18T02:01:00.000Z','finished','ada','b1','0.1.0','virtrain run nightly.yaml','{"arms":[],"trials":[]}','{"libvirtd":"9.0.0"}');
INSERT INTO experiment VALUES(19,'crashed','nightly',NULL,NULL,NULL,NULL,'interrupted',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO experiment VALUES(20,'sizes','sizes',NULL,NULL,'2026-11-01T02:00:00Z',NULL,'finished',NULL,NULL,'0.2.0',NULL,'{"arms":[{"base":"vm","changes":{},"like":"","name":"vm"},{"base":"vm","changes":{"guest.pinning":"none"},"like":"vm","name":"vm-unpinned"}],"trials":[]}',NULL);
INSERT INTO experiment VALUES(21,'beside','beside',NULL,NULL,'2026-11-02T02:00:00Z',NULL,'finished',NULL,NULL,'0.2.0',NULL,'{"arms":[{"base":"vm","changes":{},"like":"","name":"vm"},{"base":"vm","changes":{"neighbour.limits.cpu":"25%"},"like":"vm","name":"capped"},{"base":"vm","changes":{"neighbour":"idle"},"like":"vm","name":"vm+idle"},{"base":"vm","changes":{"neighbour":"cpu@25%"},"like":"vm","name":"vm+cpu@25%"},{"base":"vm","changes":{"neighbour":"cpu@100%"},"like":"vm","name":"vm+cpu@100%"},{"base":"vm","changes":{"neighbour":"h2d+d2h@12.5%"},"like":"vm","name":"vm+h2d+d2h@12.5%"},{"base":"vm","changes":{"neighbour":"idle","neighbour.limits.cpu":"25%"},"like":"capped","name":"capped+idle"},{"base":"vm","changes":{"neighbour":"cpu@25%","neighbour.limits.cpu":"25%"},"like":"capped","name":"capped+cpu@25%"},{"base":"vm","changes":{"neighbour":"cpu@100%","neighbour.limits.cpu":"25%"},"like":"capped","name":"capped+cpu@100%"},{"base":"vm","changes":{"neighbour":"h2d+d2h@12.5%","neighbour.limits.cpu":"25%"},"like":"capped","name":"capped+h2d+d2h@12.5%"}],"isolation":{"margin":0.05,"seed":1},"trials":[]}',NULL);
INSERT INTO experiment VALUES(22,'named','named',NULL,NULL,NULL,NULL,'finished',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE fingerprint (
  experiment_number INTEGER REFERENCES experiment (number) ON DELETE CASCADE,
  node_id           INTEGER REFERENCES node (id) ON DELETE CASCADE,
  key               TEXT NOT NULL,
  value             TEXT NOT NULL,
  CHECK ((experiment_number IS NULL) <> (node_id IS NULL))
) STRICT;
INSERT INTO fingerprint VALUES(1,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(NULL,1,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(NULL,2,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(2,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(3,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(4,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(5,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(6,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(7,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(8,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(9,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(10,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(11,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(12,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(13,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(14,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(15,NULL,'kernel','6.1.0');
INSERT INTO fingerprint VALUES(16,NULL,'kernel','6.1.5');
INSERT INTO fingerprint VALUES(17,NULL,'kernel','6.1.5');
INSERT INTO fingerprint VALUES(18,NULL,'kernel','6.1.5');
INSERT INTO fingerprint VALUES(NULL,3,'kernel','6.1.5');
INSERT INTO fingerprint VALUES(NULL,4,'kernel','6.1.5');
CREATE TABLE import_file (
  sha256      TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  name        TEXT NOT NULL,
  imported_at TEXT NOT NULL
) STRICT;
INSERT INTO import_file VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','old.jsonl','2026-10-01T00:00:00Z');
INSERT INTO import_file VALUES('0d68dded8bb63d5e175d53485ecd2e78cff68c269882ed2e18ff38521c11a6ed','keys.jsonl','2026-11-28T23:44:01.694Z');
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
INSERT INTO node VALUES(1,1,'t1n1','slice',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,NULL);
INSERT INTO node VALUES(2,2,'t1n1','vm',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,'<domain/>');
INSERT INTO node VALUES(3,3,'t1n1','slice',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,NULL);
INSERT INTO node VALUES(4,4,'t1n1','vm',NULL,NULL,NULL,'t1n1','0-1',1099511627776,0,NULL,NULL,-3,4,'6.1.0',NULL,NULL,4.5,'<domain/>');
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
INSERT INTO probe VALUES(1,'triad','bare_metal',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO probe VALUES(1,'triad','vm',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO probe VALUES(18,'triad','bare_metal',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
INSERT INTO probe VALUES(18,'triad','vm',NULL,NULL,NULL,NULL,NULL,1073741824,NULL,15000000000.0,'B/s',NULL,NULL,NULL,NULL);
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
INSERT INTO rank VALUES(1,1,'t1n1',0,0,1,'t1n1',77,'avx2',2,1000.0,NULL,NULL,7.5,1.000000000000000025e-300,123456789,NULL,NULL,0.10000000000000000555,NULL,0.29999999999999998889,NULL);
INSERT INTO rank VALUES(2,2,'t1n1',0,0,1,'t1n1',77,'avx2',2,950.0,NULL,NULL,7.5,1.000000000000000025e-300,123456789,NULL,NULL,0.10000000000000000555,NULL,0.29999999999999998889,NULL);
INSERT INTO rank VALUES(3,3,'t1n1',0,0,1,'t1n1',77,'avx2',2,1000.0,NULL,NULL,7.5,1.000000000000000025e-300,123456789,NULL,NULL,0.10000000000000000555,NULL,0.29999999999999998889,NULL);
INSERT INTO rank VALUES(4,4,'t1n1',0,0,1,'t1n1',77,'avx2',2,855.0,NULL,NULL,7.5,1.000000000000000025e-300,123456789,NULL,NULL,0.10000000000000000555,NULL,0.29999999999999998889,NULL);
CREATE TABLE sample (
  rank_id INTEGER NOT NULL REFERENCES rank (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  step    INTEGER NOT NULL CHECK (step >= 0),
  images  INTEGER NOT NULL CHECK (images > 0),
  seconds REAL NOT NULL CHECK (seconds > 0 AND seconds < 9e999),
  loss    REAL CHECK (abs(loss) < 9e999)
) STRICT;
INSERT INTO sample VALUES(1,1000,0,4,0.10000000000000000555,0.33333333333333331482);
INSERT INTO sample VALUES(1,1001,1,4,0.43333333333333334813,0.25);
INSERT INTO sample VALUES(1,1002,2,4,0.76666666666666660745,0.2000000000000000111);
INSERT INTO sample VALUES(2,1000,0,4,0.10000000000000000555,0.33333333333333331482);
INSERT INTO sample VALUES(2,1001,1,4,0.43333333333333334813,0.25);
INSERT INTO sample VALUES(2,1002,2,4,0.76666666666666660745,0.2000000000000000111);
INSERT INTO sample VALUES(3,1000,0,4,0.10000000000000000555,0.33333333333333331482);
INSERT INTO sample VALUES(3,1001,1,4,0.43333333333333334813,0.25);
INSERT INTO sample VALUES(3,1002,2,4,0.76666666666666660745,0.2000000000000000111);
INSERT INTO sample VALUES(4,1000,0,4,0.10000000000000000555,0.33333333333333331482);
INSERT INTO sample VALUES(4,1001,1,4,0.43333333333333334813,0.25);
INSERT INTO sample VALUES(4,1002,2,4,0.76666666666666660745,0.2000000000000000111);
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
INSERT INTO security_probe VALUES(1,'bare_metal','host_files','tenant-b at the host','leak',1,4096.0,8192.5000000000000001,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO security_probe VALUES(1,'vm','host_files','tenant-b at the host','leak',1,4096.0,8192.5000000000000001,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO security_probe VALUES(18,'bare_metal','host_files','tenant-b at the host','leak',1,4096.0,8192.5000000000000001,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
INSERT INTO security_probe VALUES(18,'vm','host_files','tenant-b at the host','leak',1,4096.0,8192.5000000000000001,'B','a file of the host in /root/x, byte 0',NULL,'kvm',NULL);
CREATE TABLE telemetry (
  node_id INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
  t_ns    INTEGER NOT NULL,
  source  TEXT NOT NULL CHECK (source IN ('guest', 'host')),
  metric  TEXT NOT NULL CHECK (metric <> ''),
  value   REAL NOT NULL CHECK (abs(value) < 9e999)
) STRICT;
INSERT INTO telemetry VALUES(1,1000,'guest','cpu',0.0);
INSERT INTO telemetry VALUES(1,1001,'guest','cpu',0.14285714285714284921);
INSERT INTO telemetry VALUES(1,1002,'guest','cpu',0.28571428571428569842);
INSERT INTO telemetry VALUES(2,1000,'guest','cpu',0.0);
INSERT INTO telemetry VALUES(2,1001,'guest','cpu',0.14285714285714284921);
INSERT INTO telemetry VALUES(2,1002,'guest','cpu',0.28571428571428569842);
INSERT INTO telemetry VALUES(3,1000,'guest','cpu',0.0);
INSERT INTO telemetry VALUES(3,1001,'guest','cpu',0.14285714285714284921);
INSERT INTO telemetry VALUES(3,1002,'guest','cpu',0.28571428571428569842);
INSERT INTO telemetry VALUES(4,1000,'guest','cpu',0.0);
INSERT INTO telemetry VALUES(4,1001,'guest','cpu',0.14285714285714284921);
INSERT INTO telemetry VALUES(4,1002,'guest','cpu',0.28571428571428569842);
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
INSERT INTO tenant VALUES(1,1,0,'t1','{"steps":2}',1,1000.0,10,12,7.5,-0.25,'self');
INSERT INTO tenant VALUES(2,2,0,'t1','{"steps":2}',1,950.0,10,12,7.5,-0.25,'self');
INSERT INTO tenant VALUES(3,35,0,'t1','{"steps":2}',1,1000.0,10,12,7.5,-0.25,'self');
INSERT INTO tenant VALUES(4,36,0,'t1','{"steps":2}',1,855.0,10,12,7.5,-0.25,'self');
CREATE TABLE transport (
  tenant_id INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  from_node TEXT NOT NULL,
  to_node   TEXT NOT NULL,
  transport TEXT NOT NULL,
  PRIMARY KEY (tenant_id, from_node, to_node)
) STRICT;
INSERT INTO transport VALUES(1,'t1n1','t1n1','self');
INSERT INTO transport VALUES(2,'t1n1','t1n1','self');
INSERT INTO transport VALUES(3,'t1n1','t1n1','self');
INSERT INTO transport VALUES(4,'t1n1','t1n1','self');
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
INSERT INTO trial VALUES(1,1,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-01T02:00:00.000Z','2026-10-01T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,'{"driver":"470.82.01"}');
INSERT INTO trial VALUES(2,1,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-01T02:00:00.000Z','2026-10-01T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(3,2,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.9999999999998862,'2026-10-02T02:00:00.000Z','2026-10-02T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(4,2,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.9499999999999318,'2026-10-02T02:00:00.000Z','2026-10-02T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(5,3,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-03T02:00:00.000Z','2026-10-03T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(6,3,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.89999999999997722,'2026-10-03T02:00:00.000Z','2026-10-03T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(7,4,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.9999999999998863,'2026-10-04T02:00:00.000Z','2026-10-04T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(8,4,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',952.84999999999990902,'2026-10-04T02:00:00.000Z','2026-10-04T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(9,5,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-05T02:00:00.000Z','2026-10-05T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(10,5,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-05T02:00:00.000Z','2026-10-05T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(11,6,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.9999999999998862,'2026-10-06T02:00:00.000Z','2026-10-06T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(12,6,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.9499999999999318,'2026-10-06T02:00:00.000Z','2026-10-06T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(13,7,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-07T02:00:00.000Z','2026-10-07T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(14,7,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.89999999999997722,'2026-10-07T02:00:00.000Z','2026-10-07T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(15,8,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.9999999999998863,'2026-10-08T02:00:00.000Z','2026-10-08T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(16,8,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',952.84999999999990902,'2026-10-08T02:00:00.000Z','2026-10-08T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(17,9,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-09T02:00:00.000Z','2026-10-09T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(18,9,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-09T02:00:00.000Z','2026-10-09T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(19,10,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.9999999999998862,'2026-10-10T02:00:00.000Z','2026-10-10T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(20,10,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.9499999999999318,'2026-10-10T02:00:00.000Z','2026-10-10T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(21,11,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-11T02:00:00.000Z','2026-10-11T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(22,11,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.89999999999997722,'2026-10-11T02:00:00.000Z','2026-10-11T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(23,12,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.9999999999998863,'2026-10-12T02:00:00.000Z','2026-10-12T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(24,12,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',952.84999999999990902,'2026-10-12T02:00:00.000Z','2026-10-12T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(25,13,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-13T02:00:00.000Z','2026-10-13T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(26,13,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.0,'2026-10-13T02:00:00.000Z','2026-10-13T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(27,14,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.9999999999998862,'2026-10-14T02:00:00.000Z','2026-10-14T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(28,14,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',950.9499999999999318,'2026-10-14T02:00:00.000Z','2026-10-14T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(29,15,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.0,'2026-10-15T02:00:00.000Z','2026-10-15T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(30,15,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',951.89999999999997722,'2026-10-15T02:00:00.000Z','2026-10-15T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(31,16,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1002.9999999999998863,'2026-10-16T02:00:00.000Z','2026-10-16T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(32,16,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',857.56499999999994086,'2026-10-16T02:00:00.000Z','2026-10-16T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(33,17,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.0,'2026-10-17T02:00:00.000Z','2026-10-17T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(34,17,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',855.0,'2026-10-17T02:00:00.000Z','2026-10-17T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(35,18,1,'one','bare_metal',1,1,0,1,4,'fp32','cpu','none',0,'finished',1000.9999999999998862,'2026-10-18T02:00:00.000Z','2026-10-18T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(36,18,2,'one','vm',1,1,0,1,4,'fp32','cpu','kvm',0,'finished',855.85499999999990446,'2026-10-18T02:00:00.000Z','2026-10-18T02:00:00.000Z',5,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(37,19,NULL,'one','vm',1,1,0,NULL,NULL,NULL,NULL,NULL,0,'failed',NULL,NULL,NULL,NULL,1,NULL,'boot','no hello …',replace('panic\n','\n',char(10)),NULL);
INSERT INTO trial VALUES(38,20,NULL,'weak@vcpus=2,batch_size=16/1','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2701.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(39,20,NULL,'weak@vcpus=2,batch_size=16/1','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2620.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(40,20,NULL,'weak@vcpus=2,batch_size=16/1','vm-unpinned',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2431.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(41,20,NULL,'weak@vcpus=2,batch_size=16/2','bare_metal',1,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5293.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(42,20,NULL,'weak@vcpus=2,batch_size=16/2','vm',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5134.2399999999997818,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(43,20,NULL,'weak@vcpus=2,batch_size=16/2','vm-unpinned',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',4763.7999999999992724,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(44,20,NULL,'weak@vcpus=1,batch_size=16/1','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',1801.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(45,20,NULL,'weak@vcpus=1,batch_size=16/1','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1747.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(46,20,NULL,'weak@vcpus=1,batch_size=16/1','vm-unpinned',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1621.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(47,20,NULL,'weak@vcpus=1,batch_size=16/2','bare_metal',1,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3529.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(48,20,NULL,'weak@vcpus=1,batch_size=16/2','vm',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3423.1599999999998544,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(49,20,NULL,'weak@vcpus=1,batch_size=16/2','vm-unpinned',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3176.1999999999998181,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(50,20,NULL,'weak@vcpus=2,batch_size=32/1','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',3001.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(51,20,NULL,'weak@vcpus=2,batch_size=32/1','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2911.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(52,20,NULL,'weak@vcpus=2,batch_size=32/1','vm-unpinned',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2701.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(53,20,NULL,'weak@vcpus=2,batch_size=32/2','bare_metal',1,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5881.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(54,20,NULL,'weak@vcpus=2,batch_size=32/2','vm',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5704.6000000000003636,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(55,20,NULL,'weak@vcpus=2,batch_size=32/2','vm-unpinned',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5293.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(56,20,NULL,'weak@vcpus=1,batch_size=32/1','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2001.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(57,20,NULL,'weak@vcpus=1,batch_size=32/1','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1941.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(58,20,NULL,'weak@vcpus=1,batch_size=32/1','vm-unpinned',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1801.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(59,20,NULL,'weak@vcpus=1,batch_size=32/2','bare_metal',1,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3921.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(60,20,NULL,'weak@vcpus=1,batch_size=32/2','vm',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3803.400000000000091,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(61,20,NULL,'weak@vcpus=1,batch_size=32/2','vm-unpinned',1,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3529.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(62,20,NULL,'weak@vcpus=2,batch_size=16/1','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2702.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(63,20,NULL,'weak@vcpus=2,batch_size=16/1','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2621.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(64,20,NULL,'weak@vcpus=2,batch_size=16/1','vm-unpinned',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2432.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(65,20,NULL,'weak@vcpus=2,batch_size=16/2','bare_metal',2,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5294.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(66,20,NULL,'weak@vcpus=2,batch_size=16/2','vm',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5135.2399999999997818,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(67,20,NULL,'weak@vcpus=2,batch_size=16/2','vm-unpinned',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',4764.7999999999992725,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(68,20,NULL,'weak@vcpus=1,batch_size=16/1','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',1802.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(69,20,NULL,'weak@vcpus=1,batch_size=16/1','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1748.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(70,20,NULL,'weak@vcpus=1,batch_size=16/1','vm-unpinned',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1622.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(71,20,NULL,'weak@vcpus=1,batch_size=16/2','bare_metal',2,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3530.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(72,20,NULL,'weak@vcpus=1,batch_size=16/2','vm',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3424.1599999999998544,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(73,20,NULL,'weak@vcpus=1,batch_size=16/2','vm-unpinned',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3177.1999999999998181,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(74,20,NULL,'weak@vcpus=2,batch_size=32/1','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',3002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(75,20,NULL,'weak@vcpus=2,batch_size=32/1','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2912.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(76,20,NULL,'weak@vcpus=2,batch_size=32/1','vm-unpinned',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2702.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(77,20,NULL,'weak@vcpus=2,batch_size=32/2','bare_metal',2,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5882.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(78,20,NULL,'weak@vcpus=2,batch_size=32/2','vm',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5705.6000000000003636,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(79,20,NULL,'weak@vcpus=2,batch_size=32/2','vm-unpinned',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5294.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(80,20,NULL,'weak@vcpus=1,batch_size=32/1','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(81,20,NULL,'weak@vcpus=1,batch_size=32/1','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1942.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(82,20,NULL,'weak@vcpus=1,batch_size=32/1','vm-unpinned',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1802.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(83,20,NULL,'weak@vcpus=1,batch_size=32/2','bare_metal',2,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3922.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(84,20,NULL,'weak@vcpus=1,batch_size=32/2','vm',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3804.4000000000000908,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(85,20,NULL,'weak@vcpus=1,batch_size=32/2','vm-unpinned',2,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3530.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(86,20,NULL,'weak@vcpus=2,batch_size=16/1','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2703.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(87,20,NULL,'weak@vcpus=2,batch_size=16/1','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2622.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(88,20,NULL,'weak@vcpus=2,batch_size=16/1','vm-unpinned',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2433.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(89,20,NULL,'weak@vcpus=2,batch_size=16/2','bare_metal',3,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5295.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(90,20,NULL,'weak@vcpus=2,batch_size=16/2','vm',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5136.2399999999997818,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(91,20,NULL,'weak@vcpus=2,batch_size=16/2','vm-unpinned',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',4765.7999999999992725,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(92,20,NULL,'weak@vcpus=1,batch_size=16/1','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',1803.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(93,20,NULL,'weak@vcpus=1,batch_size=16/1','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1749.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(94,20,NULL,'weak@vcpus=1,batch_size=16/1','vm-unpinned',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1623.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(95,20,NULL,'weak@vcpus=1,batch_size=16/2','bare_metal',3,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3531.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(96,20,NULL,'weak@vcpus=1,batch_size=16/2','vm',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3425.1599999999998544,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(97,20,NULL,'weak@vcpus=1,batch_size=16/2','vm-unpinned',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3178.1999999999998181,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(98,20,NULL,'weak@vcpus=2,batch_size=32/1','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',3003.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(99,20,NULL,'weak@vcpus=2,batch_size=32/1','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2913.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(100,20,NULL,'weak@vcpus=2,batch_size=32/1','vm-unpinned',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',2703.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(101,20,NULL,'weak@vcpus=2,batch_size=32/2','bare_metal',3,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',5883.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(102,20,NULL,'weak@vcpus=2,batch_size=32/2','vm',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5706.6000000000003636,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(103,20,NULL,'weak@vcpus=2,batch_size=32/2','vm-unpinned',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',5295.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(104,20,NULL,'weak@vcpus=1,batch_size=32/1','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',2003.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(105,20,NULL,'weak@vcpus=1,batch_size=32/1','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1943.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(106,20,NULL,'weak@vcpus=1,batch_size=32/1','vm-unpinned',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1803.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(107,20,NULL,'weak@vcpus=1,batch_size=32/2','bare_metal',3,2,0,NULL,NULL,NULL,NULL,'none',0,'finished',3923.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(108,20,NULL,'weak@vcpus=1,batch_size=32/2','vm',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3805.4000000000000908,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(109,20,NULL,'weak@vcpus=1,batch_size=32/2','vm-unpinned',3,2,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',3531.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(110,21,NULL,'trainer','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1001.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(111,21,NULL,'trainer','vm+idle',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',993.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(112,21,NULL,'trainer','vm+cpu@25%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',803.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(113,21,NULL,'trainer','vm+cpu@100%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',501.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(114,21,NULL,'trainer','vm+h2d+d2h@12.5%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',953.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(115,21,NULL,'trainer','capped',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1001.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(116,21,NULL,'trainer','capped+idle',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',993.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(117,21,NULL,'trainer','capped+cpu@25%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1043.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(118,21,NULL,'trainer','capped+cpu@100%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',651.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(119,21,NULL,'trainer','capped+h2d+d2h@12.5%',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',953.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(120,21,NULL,'trainer','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(121,21,NULL,'trainer','vm+idle',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',996.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(122,21,NULL,'trainer','vm+cpu@25%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',806.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(123,21,NULL,'trainer','vm+cpu@100%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',502.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(124,21,NULL,'trainer','vm+h2d+d2h@12.5%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',956.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(125,21,NULL,'trainer','capped',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(126,21,NULL,'trainer','capped+idle',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',996.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(127,21,NULL,'trainer','capped+cpu@25%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1046.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(128,21,NULL,'trainer','capped+cpu@100%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',652.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(129,21,NULL,'trainer','capped+h2d+d2h@12.5%',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',956.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(130,21,NULL,'trainer','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1003.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(131,21,NULL,'trainer','vm+idle',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',999.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(132,21,NULL,'trainer','vm+cpu@25%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',809.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(133,21,NULL,'trainer','vm+cpu@100%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',503.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(134,21,NULL,'trainer','vm+h2d+d2h@12.5%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',959.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(135,21,NULL,'trainer','capped',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1003.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(136,21,NULL,'trainer','capped+idle',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',999.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(137,21,NULL,'trainer','capped+cpu@25%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1049.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(138,21,NULL,'trainer','capped+cpu@100%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',653.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(139,21,NULL,'trainer','capped+h2d+d2h@12.5%',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',959.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(140,21,NULL,'trainer','vm',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1004.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(141,21,NULL,'trainer','vm+idle',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(142,21,NULL,'trainer','vm+cpu@25%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',812.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(143,21,NULL,'trainer','vm+cpu@100%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',504.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(144,21,NULL,'trainer','vm+h2d+d2h@12.5%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',962.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(145,21,NULL,'trainer','capped',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1004.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(146,21,NULL,'trainer','capped+idle',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1002.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(147,21,NULL,'trainer','capped+cpu@25%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1052.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(148,21,NULL,'trainer','capped+cpu@100%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',654.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(149,21,NULL,'trainer','capped+h2d+d2h@12.5%',4,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',962.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(150,21,NULL,'trainer','vm',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1005.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(151,21,NULL,'trainer','vm+idle',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1005.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(152,21,NULL,'trainer','vm+cpu@25%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',815.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(153,21,NULL,'trainer','vm+cpu@100%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',505.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(154,21,NULL,'trainer','vm+h2d+d2h@12.5%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',965.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(155,21,NULL,'trainer','capped',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1005.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(156,21,NULL,'trainer','capped+idle',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1005.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(157,21,NULL,'trainer','capped+cpu@25%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1055.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(158,21,NULL,'trainer','capped+cpu@100%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',655.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(159,21,NULL,'trainer','capped+h2d+d2h@12.5%',5,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',965.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(160,21,NULL,'trainer','vm',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1006.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(161,21,NULL,'trainer','vm+idle',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1008.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(162,21,NULL,'trainer','vm+cpu@25%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',818.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(163,21,NULL,'trainer','vm+cpu@100%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',506.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(164,21,NULL,'trainer','vm+h2d+d2h@12.5%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',968.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(165,21,NULL,'trainer','capped',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1006.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(166,21,NULL,'trainer','capped+idle',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1008.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(167,21,NULL,'trainer','capped+cpu@25%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',1058.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(168,21,NULL,'trainer','capped+cpu@100%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',656.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(169,21,NULL,'trainer','capped+h2d+d2h@12.5%',6,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',968.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(170,22,NULL,'a/2@x+y','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',101.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(171,22,NULL,'weak/4','bare_metal',1,4,0,NULL,NULL,NULL,NULL,'none',0,'finished',391.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(172,22,NULL,'weak/1','bare_metal',1,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',101.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(173,22,NULL,'a/2@x+y','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',96.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(174,22,NULL,'weak/4','vm',1,4,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',371.49999999999999999,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(175,22,NULL,'weak/1','vm',1,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',96.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(176,22,NULL,'a/2@x+y','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',102.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(177,22,NULL,'weak/4','bare_metal',2,4,0,NULL,NULL,NULL,NULL,'none',0,'finished',392.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(178,22,NULL,'weak/1','bare_metal',2,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',102.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(179,22,NULL,'a/2@x+y','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',97.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(180,22,NULL,'weak/4','vm',2,4,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',372.49999999999999999,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(181,22,NULL,'weak/1','vm',2,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',97.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(182,22,NULL,'a/2@x+y','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',103.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(183,22,NULL,'weak/4','bare_metal',3,4,0,NULL,NULL,NULL,NULL,'none',0,'finished',393.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(184,22,NULL,'weak/1','bare_metal',3,1,0,NULL,NULL,NULL,NULL,'none',0,'finished',103.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(185,22,NULL,'a/2@x+y','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',98.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(186,22,NULL,'weak/4','vm',3,4,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',373.49999999999999999,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(187,22,NULL,'weak/1','vm',3,1,0,NULL,NULL,NULL,NULL,'kvm',0,'finished',98.0,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('experiment',22);
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
COMMIT;
PRAGMA application_id = 1987334739;
PRAGMA user_version = 9;
