-- What was seen inside the nodes, the transports between their ranks, the facts of imported records (?2, a JSON list of
-- their names; null: all), and (as host.…) the host itself. A trial that counts for nothing forbids nothing. What not all
-- of an arm's trials in a unit saw comes with a list of those that did.
WITH counted AS MATERIALIZED (
  SELECT id, "case", arm, coalesce(unit, 'images/s') AS unit, environment FROM trial WHERE experiment_number = ?1 AND status = 'finished' AND valid = 1
), arms AS MATERIALIZED (
  SELECT "case", arm, unit, count(*) AS trials FROM counted GROUP BY "case", arm, unit
), seen(id, "case", arm, unit, key, value) AS (
  SELECT t.id, t."case", t.arm, t.unit, f.key, f.value
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN node n ON n.tenant_id = w.id
  CROSS JOIN fingerprint f ON f.node_id = n.id
  UNION ALL
  SELECT t.id, t."case", t.arm, t.unit, 'transport', w.transport
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id WHERE w.transport IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, t.unit, 'isa', r.isa
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN rank r ON r.tenant_id = w.id
  WHERE r.isa IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, t.unit, 'threads_per_rank', CAST(r.threads AS TEXT)
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN rank r ON r.tenant_id = w.id
  WHERE r.threads IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, t.unit, m.key,
         CASE m.type WHEN 'true' THEN 'on' WHEN 'false' THEN 'off'
           WHEN 'array' THEN coalesce((SELECT group_concat(value, ', ') FROM json_each(m.value)), 'none')
           ELSE CAST(m.value AS TEXT) END
  FROM counted t, json_each(t.environment) m
  WHERE m.type NOT IN ('null', 'object') AND (?2 IS NULL OR m.key IN (SELECT value FROM json_each(?2)))
)
SELECT s."case", s.arm, s.key, s.value,
       CASE WHEN count(DISTINCT s.id) < max(a.trials) THEN json_group_array(DISTINCT s.id) END, s.unit
FROM seen s JOIN arms a ON a."case" = s."case" AND a.arm = s.arm AND a.unit = s.unit
GROUP BY s."case", s.arm, s.unit, s.key, s.value
UNION ALL
SELECT c."case", c.arm, 'host.' || f.key, f.value, NULL, c.unit
FROM (SELECT DISTINCT "case", arm, coalesce(unit, 'images/s') AS unit FROM trial WHERE experiment_number = ?1) c
JOIN fingerprint f ON f.experiment_number = ?1
