-- What the stressors of neighbours did beside the valid finished trials of an experiment, as means by case, arm, unit
-- of the victims' throughput, and stressor.
SELECT t."case", t.arm, json_extract(s.value, '$.kind') AS kind, avg(json_extract(s.value, '$.busy')),
       avg(json_extract(s.value, '$.rate')), avg(json_extract(s.value, '$.rate_before')), max(json_extract(s.value, '$.unit')),
       count(*), coalesce(t.unit, 'images/s') AS of
FROM tenant n JOIN trial t ON t.id = n.trial_id, json_each(n.workload, '$.stressors') s
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1
GROUP BY t."case", t.arm, of, kind
ORDER BY min(t.id), kind
