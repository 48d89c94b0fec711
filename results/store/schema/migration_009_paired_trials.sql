-- Version 9: where a case has pairs, trials without one (a warm-up, say) are in no mean and in no ratio, as in compare.
DROP VIEW v_speedup;
CREATE VIEW v_speedup AS
WITH usable AS (
  SELECT *, max(pair IS NOT NULL) OVER (PARTITION BY experiment, case_name, arm) AS in_pairs FROM v_trial
  WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL
), level AS (
  SELECT experiment, scenario, label, case_name, arm, nodes,
         substr(case_name, 1, length(case_name) - length(CAST(nodes AS TEXT)) - 1) AS family,
         count(*) AS runs, avg(images_per_second) AS images_per_second
  FROM usable
  WHERE (pair IS NOT NULL OR NOT in_pairs)
    AND substr(case_name, length(case_name) - length(CAST(nodes AS TEXT))) = '/' || CAST(nodes AS TEXT)
  GROUP BY experiment, scenario, label, case_name, arm, nodes
)
SELECT n.experiment, n.scenario, n.label, n.case_name AS "case", n.arm, n.nodes, n.runs, n.images_per_second,
       n.images_per_second / one.images_per_second AS speedup,
       n.images_per_second / one.images_per_second / n.nodes AS efficiency, n.case_name
FROM level n JOIN level one
  ON one.experiment = n.experiment AND one.arm = n.arm AND one.family = n.family AND one.nodes = 1;

DROP VIEW v_vm_vs_bare_metal;
CREATE VIEW v_vm_vs_bare_metal AS
WITH usable AS (
  SELECT *, max(pair IS NOT NULL) OVER (PARTITION BY experiment, case_name) AS in_pairs FROM v_trial
  WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL AND arm IN ('bare_metal', 'vm')
)
SELECT experiment, scenario, label, case_name AS "case", pair,
       avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS bare_metal_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm') AS vm_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm')
         / avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS ratio,
       max(virtualization) FILTER (WHERE arm = 'vm') AS virtualization, case_name,
       CASE WHEN count(*) FILTER (WHERE arm = 'bare_metal') = 1
            THEN max(trial_id) FILTER (WHERE arm = 'bare_metal') END AS bare_metal_trial_id,
       CASE WHEN count(*) FILTER (WHERE arm = 'vm') = 1 THEN max(trial_id) FILTER (WHERE arm = 'vm') END AS vm_trial_id
FROM usable
WHERE pair IS NOT NULL OR NOT in_pairs
GROUP BY experiment, scenario, label, case_name, pair
HAVING count(DISTINCT arm) = 2;
