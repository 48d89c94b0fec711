-- Step times in seconds of all ranks of each tenant, of the valid finished trials of an experiment. A display window of
-- several steps counts as one step of its mean; where the steps' images are not known, as one step.
WITH counted AS (
  SELECT t."case", t.arm, w.id, w.tenant_index, coalesce(t.unit, 'images/s') AS unit,
         coalesce(json_extract(w.workload, '$.batch_size'), t.batch_size)
           * coalesce(json_extract(w.workload, '$.accumulate_steps'), 1) AS images
  FROM trial t JOIN tenant w ON w.trial_id = t.id
  WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1
), measured AS (
  SELECT c."case", c.arm, c.tenant_index, c.unit, s.seconds * coalesce(c.images * 1.0 / s.images, 1) AS seconds
  FROM counted c JOIN rank r ON r.tenant_id = c.id JOIN sample s ON s.rank_id = r.id
)
SELECT "case", arm, tenant_index, unit, seconds FROM measured WHERE seconds > 0 AND seconds < 9e999  -- imports may say anything
