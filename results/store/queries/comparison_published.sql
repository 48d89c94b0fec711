-- ?1 scenarios and ?2 ids of the compared experiments, JSON lists. Published is what is labelled so, or never says what
-- was virtual; asked once for each experiment, not for each of its trials.
WITH published AS MATERIALIZED (
  SELECT e.number, e.id, e.scenario
  FROM experiment e
  WHERE e.scenario IN (SELECT value FROM json_each(?1)) AND e.id NOT IN (SELECT value FROM json_each(?2))
    AND (e.label = 'published' OR NOT EXISTS
         (SELECT 1 FROM trial v WHERE v.experiment_number = e.number AND v.virtualization IS NOT NULL))
)
SELECT p.id, p.scenario, t."case", t.arm, t.nodes, avg(t.throughput), t.unit
FROM published p CROSS JOIN trial t ON t.experiment_number = p.number
WHERE t.status = 'finished' AND t.valid = 1 AND t.throughput IS NOT NULL AND t.scale = t.nodes
GROUP BY p.number, t."case", t.arm, t.nodes, t.unit
ORDER BY p.number
