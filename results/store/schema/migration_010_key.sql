-- Version 10: what tells trials apart is in columns. `family` is the case as its scenario calls it, where the trial's case is
-- one size (`scale` nodes) or one point (`point`, keys with values) of it; `arm_like` the arm that this one varies;
-- `neighbour` and `level` what ran beside it. "case" and arm are what people read.
ALTER TABLE trial ADD COLUMN family TEXT CHECK (family <> '');
ALTER TABLE trial ADD COLUMN scale INTEGER CHECK (scale >= 1);
ALTER TABLE trial ADD COLUMN point TEXT CHECK (point IS NULL OR json_valid(point));
ALTER TABLE trial ADD COLUMN arm_like TEXT CHECK (arm_like <> '');
ALTER TABLE trial ADD COLUMN neighbour TEXT CHECK (neighbour <> '');
ALTER TABLE trial ADD COLUMN level REAL CHECK (level > 0 AND level <= 1);
-- Version 10: a throughput is a value and its unit. images_per_second, which views and others read, follows from them.
DROP VIEW v_vm_vs_bare_metal;
DROP VIEW v_speedup;
DROP VIEW v_trial;
DROP VIEW v_trial_detail;
DROP VIEW v_tenant;
DROP VIEW v_rank;
DROP VIEW v_sample;
ALTER TABLE trial ADD COLUMN throughput REAL CHECK (throughput > 0 AND throughput < 9e999);
ALTER TABLE trial ADD COLUMN unit TEXT CHECK ((unit IS NULL) = (throughput IS NULL) AND unit <> '');
UPDATE trial SET throughput = images_per_second, unit = 'images/s' WHERE images_per_second IS NOT NULL;
ALTER TABLE trial DROP COLUMN images_per_second;
ALTER TABLE trial ADD COLUMN images_per_second REAL GENERATED ALWAYS AS (CASE unit WHEN 'images/s' THEN throughput END);
ALTER TABLE tenant ADD COLUMN throughput REAL CHECK (throughput > 0 AND throughput < 9e999);
ALTER TABLE tenant ADD COLUMN unit TEXT CHECK ((unit IS NULL) = (throughput IS NULL) AND unit <> '');
UPDATE tenant SET throughput = images_per_second, unit = 'images/s' WHERE images_per_second IS NOT NULL;
ALTER TABLE tenant DROP COLUMN images_per_second;
ALTER TABLE tenant ADD COLUMN images_per_second REAL GENERATED ALWAYS AS (CASE unit WHEN 'images/s' THEN throughput END);
ALTER TABLE rank ADD COLUMN throughput REAL CHECK (throughput > 0 AND throughput < 9e999);
ALTER TABLE rank ADD COLUMN unit TEXT CHECK ((unit IS NULL) = (throughput IS NULL) AND unit <> '');
UPDATE rank SET throughput = images_per_second, unit = 'images/s' WHERE images_per_second IS NOT NULL;
ALTER TABLE rank DROP COLUMN images_per_second;
ALTER TABLE rank ADD COLUMN images_per_second REAL GENERATED ALWAYS AS (CASE unit WHEN 'images/s' THEN throughput END);

WITH variant AS MATERIALIZED (
  SELECT e.number, CASE a.type WHEN 'object' THEN json_extract(a.value, '$.name') END AS name,
         max(CASE a.type WHEN 'object' THEN json_extract(a.value, '$.like') END) AS arm_like
  FROM experiment e, json_each(e.plan, '$.arms') a
  GROUP BY 1, 2
)
UPDATE trial SET arm_like = CAST(v.arm_like AS TEXT) FROM variant v
WHERE v.number = trial.experiment_number AND v.name = trial.arm AND v.arm_like <> '';

CREATE VIEW v_trial AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node,
       t.images_per_second, t.status, t.virtualization, t.valid, t.invalid_reason, t.started_at, t.id AS trial_id,
       t."case" AS case_name
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

-- Here and below, throughput and unit are of what is not in images/s, which have their own column.
CREATE VIEW v_trial_detail AS
SELECT e.id AS experiment, e.scenario, e.label, row_number() OVER (PARTITION BY e.number ORDER BY t.id) AS trial,
       t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node, t.ranks_per_node, t.batch_size, t.precision,
       t.backend, t.virtualization, t.oversubscribed, t.status, t.images_per_second, t.started_at, t.ended_at,
       t.start_spread_ns, t.valid, t.invalid_reason, t.failed_stage, t.failure_reason, t.id AS trial_id,
       t."case" AS case_name, t.family, t.scale, t.point, t.arm_like, t.neighbour, t.level,
       CASE WHEN t.images_per_second IS NULL THEN t.throughput END AS throughput, nullif(t.unit, 'images/s') AS unit
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_tenant AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, n.tenant_index AS tenant,
       n.name, n.nodes, n.images_per_second, n.network_bytes_required, n.network_bytes_measured, n.loss_first,
       n.loss_last, n.transport, n.workload, t.status, t.valid, t.id AS trial_id, t."case" AS case_name,
       CASE WHEN n.images_per_second IS NULL THEN n.throughput END AS throughput, nullif(n.unit, 'images/s') AS unit
FROM tenant n JOIN trial t ON t.id = n.trial_id JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_rank AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, r.node, r.rank,
       r.local_rank, r.size, r.hostname, r.pid, r.isa, r.threads, r.images_per_second, r.parameters_hash_before,
       r.parameters_hash_after, r.loss_first, r.loss_last, r.peak_rss_bytes, r.cpuset_read_back,
       r.memory_limit_read_back_bytes, r.step_p50_seconds, r.step_p95_seconds, r.step_p99_seconds,
       r.exposed_allreduce_seconds, t.id AS trial_id, t."case" AS case_name,
       CASE WHEN r.images_per_second IS NULL THEN r.throughput END AS throughput, nullif(r.unit, 'images/s') AS unit
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

-- What `images` counts is what the trial's throughput does.
CREATE VIEW v_sample AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, w.tenant_index AS tenant, r.rank,
       s.t_ns, s.step, s.images, s.seconds,
       CASE WHEN coalesce(t.unit, 'images/s') = 'images/s' THEN s.images / s.seconds END AS images_per_second, s.loss
FROM sample s JOIN rank r ON r.id = s.rank_id JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

-- The sizes of a weak scaling against one node of the same experiment, arm and unit, by arithmetic means.
CREATE VIEW v_speedup AS
WITH size AS (
  SELECT t.experiment_number, t."case" AS case_name, t.arm, t.nodes, t.family, coalesce(t.point, '') AS point,
         count(*) AS runs, avg(t.throughput) AS throughput, t.unit
  FROM trial t
  WHERE t.status = 'finished' AND t.valid = 1 AND t.throughput IS NOT NULL AND t.scale = t.nodes
    AND (t.pair IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM trial p
      WHERE p.experiment_number = t.experiment_number AND p."case" = t."case" AND p.arm = t.arm AND p.pair IS NOT NULL
        AND p.status = 'finished' AND p.valid = 1 AND p.unit = t.unit))
  GROUP BY t.experiment_number, t."case", t.arm, t.nodes, t.family, coalesce(t.point, ''), t.unit
)
SELECT e.id AS experiment, e.scenario, e.label, n.case_name AS "case", n.arm, n.nodes, n.runs,
       CASE n.unit WHEN 'images/s' THEN n.throughput END AS images_per_second, n.throughput / one.throughput AS speedup,
       n.throughput / one.throughput / n.nodes AS efficiency, n.case_name,
       CASE WHEN n.unit <> 'images/s' THEN n.throughput END AS throughput, nullif(n.unit, 'images/s') AS unit
FROM size n JOIN size one
  ON one.experiment_number = n.experiment_number AND one.arm = n.arm AND one.family = n.family AND one.point = n.point
  AND one.unit = n.unit AND one.nodes = 1
JOIN experiment e ON e.number = n.experiment_number;

CREATE VIEW v_vm_vs_bare_metal AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.pair,
       avg(t.images_per_second) FILTER (WHERE t.arm = 'bare_metal') AS bare_metal_images_per_second,
       avg(t.images_per_second) FILTER (WHERE t.arm = 'vm') AS vm_images_per_second,
       avg(t.throughput) FILTER (WHERE t.arm = 'vm') / avg(t.throughput) FILTER (WHERE t.arm = 'bare_metal') AS ratio,
       max(t.virtualization) FILTER (WHERE t.arm = 'vm') AS virtualization, t."case" AS case_name,
       CASE WHEN count(*) FILTER (WHERE t.arm = 'bare_metal') = 1
            THEN max(t.id) FILTER (WHERE t.arm = 'bare_metal') END AS bare_metal_trial_id,
       CASE WHEN count(*) FILTER (WHERE t.arm = 'vm') = 1 THEN max(t.id) FILTER (WHERE t.arm = 'vm') END AS vm_trial_id,
       nullif(t.unit, 'images/s') AS unit
FROM trial t JOIN experiment e ON e.number = t.experiment_number
WHERE t.status = 'finished' AND t.valid = 1 AND t.throughput IS NOT NULL AND t.arm IN ('bare_metal', 'vm')
  AND (t.pair IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM trial p
    WHERE p.experiment_number = t.experiment_number AND p."case" = t."case" AND p.arm IN ('bare_metal', 'vm')
      AND p.pair IS NOT NULL AND p.status = 'finished' AND p.valid = 1 AND p.unit = t.unit))
GROUP BY e.id, e.scenario, e.label, t."case", t.pair, t.unit
HAVING count(DISTINCT t.arm) = 2;

-- What tells a probe's figure from others, beside its own columns.
ALTER TABLE probe ADD COLUMN settings TEXT CHECK (settings IS NULL OR json_valid(settings));

-- Every measured value with its name, unit, scope and settings. Two of them are the same figure only if all of that is.
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
SELECT e.id, NULL, NULL, p.arm, NULL, 'node', NULL, NULL, p.node, p.name, p.unit, p.value,
       json_object('transport', p.transport, 'data_type', p.data_type, 'nodes', p.nodes, 'ranks', p.ranks,
                   'size_bytes', p.size_bytes, 'device', json_extract(p.detail, '$.device'), 'source', json(p.settings))
FROM probe p JOIN experiment e ON e.number = p.experiment_number;

-- The keys of a scenario with their values for one trial, or for one tenant of it: what is stored of them.
CREATE VIEW v_setting AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, NULL AS tenant, 'sweep.' || p.key AS key,
       CAST(p.value AS TEXT) AS value
FROM trial t JOIN experiment e ON e.number = t.experiment_number, json_each(t.point) p
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, NULL, substr(s.fullkey, 3), CAST(s.atom AS TEXT)
FROM experiment e, json_each(e.plan, '$.trials') p, json_tree(CASE p.type WHEN 'object' THEN p.value END, '$.guest') s
JOIN trial t ON t.experiment_number = e.number AND t.trial_order = json_extract(CASE p.type WHEN 'object' THEN p.value END, '$.order')
WHERE s.atom IS NOT NULL
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
