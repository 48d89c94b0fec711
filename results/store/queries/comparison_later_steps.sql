-- Steps of victims after their aggressors had ended, of the valid finished trials of an experiment. Imports may say anything.
SELECT t."case", t.arm, t.pair, json_extract(s.value, '$.end') AS "end", json_extract(s.value, '$.seconds') AS seconds,
       json_extract(s.value, '$.images') AS images, coalesce(t.unit, 'images/s')
FROM tenant n JOIN trial t ON t.id = n.trial_id, json_each(n.workload, '$.recovery') s
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1 AND t.pair IS NOT NULL
      AND abs("end") < 1e9 AND seconds > 0 AND seconds < 1e9 AND images > 0 AND images < 1e12
ORDER BY t.id, s.key
