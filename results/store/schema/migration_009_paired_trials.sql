-- Version 9: where a case has pairs, trials without one (a warm-up, say) are in no mean and in no ratio, as in compare.
-- They are looked for in the index trial_pair, so that a view of one experiment reads no other.
DROP VIEW v_speedup;
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

DROP VIEW v_vm_vs_bare_metal;
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
