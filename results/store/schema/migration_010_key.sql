-- Version 10: what tells trials apart is in columns. `family` is the case as its scenario calls it, where the trial's case is
-- one size (`scale` nodes) or one point (`point`, keys with values) of it; `arm_like` the arm that this one varies;
-- `neighbour` and `level` what ran beside it. "case" and arm are what people read.
ALTER TABLE trial ADD COLUMN family TEXT CHECK (family <> '');
ALTER TABLE trial ADD COLUMN scale INTEGER CHECK (scale >= 1);
ALTER TABLE trial ADD COLUMN point TEXT CHECK (point IS NULL OR json_valid(point));
ALTER TABLE trial ADD COLUMN arm_like TEXT CHECK (arm_like <> '');
ALTER TABLE trial ADD COLUMN neighbour TEXT CHECK (neighbour <> '');
ALTER TABLE trial ADD COLUMN level REAL CHECK (level > 0 AND level <= 1);
-- A throughput that is not in images/s, with its unit.
ALTER TABLE trial ADD COLUMN throughput REAL 
  CHECK (throughput IS NULL OR (throughput > 0 AND throughput < 9e999 AND images_per_second IS NULL));
ALTER TABLE trial ADD COLUMN unit TEXT CHECK ((unit IS NULL) = (throughput IS NULL) AND unit <> 'images/s');

WITH variant AS MATERIALIZED (
  SELECT e.number, CASE a.type WHEN 'object' THEN json_extract(a.value, '$.name') END AS name,
         max(CASE a.type WHEN 'object' THEN json_extract(a.value, '$.like') END) AS arm_like
  FROM experiment e, json_each(e.plan, '$.arms') a
  GROUP BY 1, 2
)
UPDATE trial SET arm_like = CAST(v.arm_like AS TEXT) FROM variant v
WHERE v.number = trial.experiment_number AND v.name = trial.arm AND v.arm_like <> '';

DROP VIEW v_trial_detail;
CREATE VIEW v_trial_detail AS
SELECT e.id AS experiment, e.scenario, e.label, row_number() OVER (PARTITION BY e.number ORDER BY t.id) AS trial,
       t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node, t.ranks_per_node, t.batch_size, t.precision,
       t.backend, t.virtualization, t.oversubscribed, t.status, t.images_per_second, t.started_at, t.ended_at,
       t.start_spread_ns, t.valid, t.invalid_reason, t.failed_stage, t.failure_reason, t.id AS trial_id,
       t."case" AS case_name, t.family, t.scale, t.point, t.arm_like, t.neighbour, t.level,
       t.throughput, t.unit
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

-- The sizes of a weak scaling against one node of the same experiment and arm, by arithmetic means.
DROP VIEW v_speedup;
CREATE VIEW v_speedup AS
WITH size AS (
  SELECT t.experiment_number, t."case" AS case_name, t.arm, t.nodes, t.family, coalesce(t.point, '') AS point,
         count(*) AS runs, avg(t.images_per_second) AS images_per_second
  FROM trial t
  WHERE t.status = 'finished' AND t.valid = 1 AND t.images_per_second IS NOT NULL AND t.scale = t.nodes
    AND (t.pair IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM trial p
      WHERE p.experiment_number = t.experiment_number AND p."case" = t."case" AND p.arm = t.arm AND p.pair IS NOT NULL
        AND p.status = 'finished' AND p.valid = 1 AND p.images_per_second IS NOT NULL))
  GROUP BY t.experiment_number, t."case", t.arm, t.nodes, t.family, coalesce(t.point, '')
)
SELECT e.id AS experiment, e.scenario, e.label, n.case_name AS "case", n.arm, n.nodes, n.runs, n.images_per_second,
       n.images_per_second / one.images_per_second AS speedup,
       n.images_per_second / one.images_per_second / n.nodes AS efficiency, n.case_name
FROM size n JOIN size one
  ON one.experiment_number = n.experiment_number AND one.arm = n.arm AND one.family = n.family AND one.point = n.point
  AND one.nodes = 1
JOIN experiment e ON e.number = n.experiment_number;

-- Every measured value with its name, unit, scope and settings. Two of them are the same figure only if all of that is.
CREATE VIEW v_figure AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, 'trial' AS scope, NULL AS tenant,
       NULL AS rank, NULL AS node, 'throughput' AS name, coalesce(t.unit, 'images/s') AS unit,
       coalesce(t.images_per_second, t.throughput) AS value,
       json_object('batch_size', t.batch_size, 'precision', t.precision, 'backend', t.backend, 'nodes', t.nodes,
                   'gpus_per_node', t.gpus_per_node, 'ranks_per_node', t.ranks_per_node) AS settings
FROM trial t JOIN experiment e ON e.number = t.experiment_number
WHERE coalesce(t.images_per_second, t.throughput) IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'tenant', w.tenant_index, NULL, NULL, 'throughput', 'images/s', w.images_per_second,
       w.workload
FROM tenant w JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number
WHERE w.images_per_second IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'rank', w.tenant_index, r.rank, r.node, 'throughput', 'images/s',
       r.images_per_second, w.workload
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number WHERE r.images_per_second IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, 'rank', w.tenant_index, r.rank, r.node, 'step_p99', 's', r.step_p99_seconds, w.workload
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number WHERE r.step_p99_seconds IS NOT NULL
UNION ALL
SELECT e.id, NULL, NULL, p.arm, NULL, 'node', NULL, NULL, p.node, p.name, p.unit, p.value,
       json_object('transport', p.transport, 'data_type', p.data_type, 'nodes', p.nodes, 'ranks', p.ranks,
                   'size_bytes', p.size_bytes, 'source', json_extract(p.detail, '$.settings'))
FROM probe p JOIN experiment e ON e.number = p.experiment_number;

-- The keys of a scenario with their values for one trial, or for one tenant of it: what is stored of them.
CREATE VIEW v_setting AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, NULL AS tenant, 'sweep.' || p.key AS key,
       CAST(p.value AS TEXT) AS value
FROM trial t JOIN experiment e ON e.number = t.experiment_number, json_each(t.point) p
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, w.tenant_index, 'workload.' || s.key, CAST(s.value AS TEXT)
FROM tenant w JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number, json_each(w.workload) s
WHERE s.type NOT IN ('null', 'object', 'array')
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, NULL, 'workload.batch_size', CAST(t.batch_size AS TEXT)
FROM trial t JOIN experiment e ON e.number = t.experiment_number WHERE t.batch_size IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, NULL, 'workload.precision', t.precision
FROM trial t JOIN experiment e ON e.number = t.experiment_number WHERE t.precision IS NOT NULL
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, NULL, 'workload.backend', t.backend
FROM trial t JOIN experiment e ON e.number = t.experiment_number WHERE t.backend IS NOT NULL;
