-- ?1 scenarios and ?2 ids of the compared experiments, JSON lists. Published is what is labelled so, or never says what
-- was virtual.
SELECT e.id, e.scenario, t."case", t.arm, t.nodes, avg(t.images_per_second)
FROM experiment e JOIN trial t ON t.experiment_number = e.number
WHERE e.scenario IN (SELECT value FROM json_each(?1)) AND e.id NOT IN (SELECT value FROM json_each(?2))
  AND (e.label = 'published' OR NOT EXISTS
       (SELECT 1 FROM trial v WHERE v.experiment_number = e.number AND v.virtualization IS NOT NULL))
  AND t.status = 'finished' AND t.valid = 1 AND t.images_per_second IS NOT NULL AND t."case" LIKE '%/' || t.nodes
GROUP BY e.number, t."case", t.arm, t.nodes
ORDER BY e.number
