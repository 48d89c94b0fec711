-- Version 10: what tells trials apart is in columns. `family` is the case as its scenario calls it, where the trial's case is
-- one size (`scale` nodes) or one point (`point`, keys with values) of it; `arm_like` the arm that this one varies;
-- `neighbour` and `level` what ran beside it. "case" and arm are what people read.
ALTER TABLE trial ADD COLUMN family TEXT CHECK (family <> '');
ALTER TABLE trial ADD COLUMN scale INTEGER CHECK (scale >= 1);
ALTER TABLE trial ADD COLUMN point TEXT CHECK (point IS NULL OR json_valid(point));
ALTER TABLE trial ADD COLUMN arm_like TEXT CHECK (arm_like <> '');
ALTER TABLE trial ADD COLUMN neighbour TEXT CHECK (neighbour <> '');
ALTER TABLE trial ADD COLUMN level REAL CHECK (level > 0 AND level <= 1);

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
       t."case" AS case_name, t.family, t.scale, t.point, t.arm_like, t.neighbour, t.level
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
