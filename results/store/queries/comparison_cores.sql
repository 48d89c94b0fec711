SELECT t."case", t.arm, n.cores, count(*), coalesce(t.unit, 'images/s')
FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1 AND n.cores IS NOT NULL
GROUP BY t."case", t.arm, 5, n.cores
