-- Ranks, nodes and start spread of the valid finished trials of an experiment, as means by case, arm and unit. The measured time
-- of a rank follows from its throughput and steps, or from its samples where the workload is not known. Means of nothing
-- are left out.
WITH counted AS (
  SELECT t.id, t."case", t.arm, coalesce(t.unit, 'images/s') AS unit, t.start_spread_ns, w.id AS tenant_id,
         coalesce(json_extract(w.workload, '$.batch_size'), t.batch_size) AS batch_size,
         json_extract(w.workload, '$.steps') AS steps, coalesce(json_extract(w.workload, '$.accumulate_steps'), 1) AS parts
  FROM trial t JOIN tenant w ON w.trial_id = t.id
  WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1
), measured AS (
  SELECT c.*, r.exposed_allreduce_seconds, r.threads,
         coalesce(c.batch_size * c.parts / r.images_per_second, r.step_p50_seconds) AS step_seconds,
         coalesce(c.steps * c.batch_size * c.parts / r.images_per_second,
                  (SELECT sum(seconds) FROM sample WHERE rank_id = r.id)) AS seconds
  FROM counted c JOIN rank r ON r.tenant_id = c.tenant_id
), means("case", arm, name, mean, count, unit) AS (
  SELECT "case", arm, 'step_seconds', avg(step_seconds), count(step_seconds), unit FROM measured GROUP BY "case", arm, unit
  UNION ALL
  SELECT "case", arm, 'exposed_allreduce_share', avg(exposed_allreduce_seconds / seconds),
         count(exposed_allreduce_seconds / seconds), unit
  FROM measured GROUP BY "case", arm, unit
  UNION ALL
  SELECT "case", arm, 'measured_seconds', avg(seconds), count(seconds), unit FROM measured GROUP BY "case", arm, unit
  UNION ALL
  SELECT "case", arm, 'threads_per_rank', avg(threads), count(threads), unit FROM measured GROUP BY "case", arm, unit
  UNION ALL
  SELECT "case", arm, 'start_spread_seconds', avg(start_spread_ns * 1e-9), count(start_spread_ns), coalesce(unit, 'images/s')
  FROM trial WHERE experiment_number = ?1 AND status = 'finished' AND valid = 1 GROUP BY "case", arm, coalesce(unit, 'images/s')
)
SELECT * FROM means WHERE mean IS NOT NULL
