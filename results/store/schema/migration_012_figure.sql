-- Version 12: figures of a tenant's own command. A row without t_ns is its value over the trial, the others are readings of
-- it. Before, readings of the throughput were telemetry whose metric named who had said it.
CREATE TABLE figure (
  tenant_id INTEGER NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
  node      TEXT CHECK (node <> ''),
  rank      INTEGER CHECK (rank >= 0),
  name      TEXT NOT NULL CHECK (name <> ''),
  unit      TEXT NOT NULL CHECK (unit <> ''),
  value     REAL NOT NULL CHECK (abs(value) < 9e999),
  settings  TEXT CHECK (settings IS NULL OR json_valid(settings)),
  t_ns      INTEGER
) STRICT;
CREATE INDEX figure_tenant ON figure (tenant_id);

WITH reading AS MATERIALIZED (
  SELECT n.tenant_id, substr(m.metric, 12) AS source, m.value, m.t_ns,
         coalesce(w.unit, CASE json_type(w.workload, '$.throughput.unit') WHEN 'text'
                          THEN nullif(json_extract(w.workload, '$.throughput.unit'), '') END) AS unit
  FROM telemetry m JOIN node n ON n.id = m.node_id JOIN tenant w ON w.id = n.tenant_id
  WHERE m.metric GLOB 'job_figure ?*'
  ORDER BY m.rowid
)
INSERT INTO figure (tenant_id, node, rank, name, unit, value, t_ns)
SELECT tenant_id, CASE WHEN source NOT GLOB 'rank [0-9]*' THEN source END,
       CASE WHEN source GLOB 'rank [0-9]*' THEN CAST(substr(source, 6) AS INTEGER) END, 'throughput', unit, value, t_ns
FROM reading WHERE unit IS NOT NULL;
DELETE FROM telemetry WHERE metric GLOB 'job_figure ?*';

DROP VIEW v_figure;
CREATE VIEW v_figure AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, 'trial' AS scope, NULL AS tenant,
       NULL AS rank, NULL AS node, 'throughput' AS name, t.unit, t.throughput AS value,
       json_object('batch_size', t.batch_size, 'precision', t.precision, 'backend', t.backend, 'nodes', t.nodes,
                   'gpus_per_node', t.gpus_per_node, 'ranks_per_node', t.ranks_per_node) AS settings
FROM trial t JOIN experiment e ON e.number = t.experiment_number WHERE t.throughput IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'tenant', w.tenant_index, NULL, NULL, 'throughput', w.unit, w.throughput, w.workload
FROM tenant w JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number
WHERE w.throughput IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'rank', w.tenant_index, r.rank, r.node, 'throughput', r.unit, r.throughput,
       w.workload
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number WHERE r.throughput IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'rank', w.tenant_index, r.rank, r.node, 'step_p99', 's', r.step_p99_seconds, w.workload
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number WHERE r.step_p99_seconds IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair,
       CASE WHEN f.rank IS NOT NULL THEN 'rank' WHEN f.node IS NOT NULL THEN 'node' ELSE 'tenant' END, w.tenant_index,
       f.rank, f.node, f.name, f.unit, f.value,
       json_set(coalesce(w.workload, '{}'), '$.source', json(coalesce(f.settings, 'null')))
FROM figure f JOIN tenant w ON w.id = f.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number WHERE f.t_ns IS NULL
UNION ALL
SELECT e.id, NULL, NULL, p.arm, NULL, 'node', NULL, NULL, p.node, p.name, p.unit, p.value,
       json_object('transport', p.transport, 'data_type', p.data_type, 'nodes', p.nodes, 'ranks', p.ranks,
                   'size_bytes', p.size_bytes, 'device', json_extract(p.detail, '$.device'), 'source', json(p.settings))
FROM probe p JOIN experiment e ON e.number = p.experiment_number;
