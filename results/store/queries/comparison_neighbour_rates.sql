-- How fast the stressors of neighbours worked beside each valid finished trial of an experiment, all of a trial together.
SELECT t."case", t.arm, t.pair, sum(json_extract(s.value, '$.rate')), coalesce(t.unit, 'images/s')
FROM tenant n JOIN trial t ON t.id = n.trial_id, json_each(n.workload, '$.stressors') s
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1 AND t.pair IS NOT NULL
GROUP BY t.id
ORDER BY t.id
