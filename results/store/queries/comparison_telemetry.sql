-- Means over the nodes of a case and arm: of each metric its mean or, for counters of seconds, its rate, within the
-- measured steps of the tenant's first rank (and a second and a half around them, because readings come once a second).
-- Samples are stored in the order of time, so the first and the last row of a rank bound them. A single reading of a
-- counter has no rate and is left out.
WITH placed AS (
  SELECT t."case", t.arm, coalesce(t.unit, 'images/s') AS unit, n.id AS node_id, (SELECT min(r.id) FROM rank r WHERE r.tenant_id = w.id) AS rank_id
  FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id
  WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1
), bounded AS MATERIALIZED (
  SELECT p.*,
         coalesce((SELECT CAST(t_ns - seconds * 1e9 AS INTEGER) - 1500000000 FROM sample
                   WHERE rank_id = p.rank_id ORDER BY rowid LIMIT 1), -9223372036854775807) AS begin_ns,
         coalesce((SELECT t_ns + 1500000000 FROM sample
                   WHERE rank_id = p.rank_id ORDER BY rowid DESC LIMIT 1), 9223372036854775807) AS end_ns
  FROM placed p
)
SELECT "case", arm, kind || metric, avg(CASE kind WHEN 'rate.' THEN rate ELSE mean END) AS value, count(*), unit
FROM (
  SELECT b."case", b.arm, b.unit, m.metric, CASE substr(m.metric, -8) WHEN '_seconds' THEN 'rate.' ELSE 'mean.' END AS kind,
         avg(m.value) AS mean,
         (max(m.value) - min(m.value)) / nullif((max(m.t_ns) - min(m.t_ns)) * 1e-9, 0) AS rate
  FROM bounded b CROSS JOIN telemetry m ON m.node_id = b.node_id
  WHERE m.t_ns BETWEEN b.begin_ns AND b.end_ns AND m.metric NOT LIKE '%_bytes'
  GROUP BY b.node_id, m.metric
)
GROUP BY "case", arm, unit, metric
HAVING value IS NOT NULL
