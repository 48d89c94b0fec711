-- What was seen inside the nodes, the transports between their ranks, the facts of imported records (?2, a JSON list of
-- their names; null: all), and (as host.…) the host itself. A trial that counts for nothing forbids nothing. What not all
-- of an arm's trials saw comes with a list of those that did.
WITH counted AS MATERIALIZED (
  SELECT id, "case", arm, environment FROM trial WHERE experiment_number = ?1 AND status = 'finished' AND valid = 1
), arms AS MATERIALIZED (
  SELECT "case", arm, count(*) AS trials FROM counted GROUP BY "case", arm
), seen(id, "case", arm, key, value) AS (
  SELECT t.id, t."case", t.arm, f.key, f.value
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN node n ON n.tenant_id = w.id
  CROSS JOIN fingerprint f ON f.node_id = n.id
  UNION ALL
  SELECT t.id, t."case", t.arm, 'transport', w.transport
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id WHERE w.transport IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, 'isa', r.isa
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN rank r ON r.tenant_id = w.id
  WHERE r.isa IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, 'threads_per_rank', CAST(r.threads AS TEXT)
  FROM counted t CROSS JOIN tenant w ON w.trial_id = t.id CROSS JOIN rank r ON r.tenant_id = w.id
  WHERE r.threads IS NOT NULL
  UNION ALL
  SELECT t.id, t."case", t.arm, m.key,
         CASE m.type WHEN 'true' THEN 'on' WHEN 'false' THEN 'off'
           WHEN 'array' THEN coalesce((SELECT group_concat(value, ', ') FROM json_each(m.value)), 'none')
           ELSE CAST(m.value AS TEXT) END
  FROM counted t, json_each(t.environment) m
  WHERE m.type NOT IN ('null', 'object') AND (?2 IS NULL OR m.key IN (SELECT value FROM json_each(?2)))
)
SELECT s."case", s.arm, s.key, s.value,
       CASE WHEN count(DISTINCT s.id) < max(a.trials) THEN json_group_array(DISTINCT s.id) END
FROM seen s JOIN arms a ON a."case" = s."case" AND a.arm = s.arm
GROUP BY s."case", s.arm, s.key, s.value
UNION ALL
SELECT c."case", c.arm, 'host.' || f.key, f.value, NULL
FROM (SELECT DISTINCT "case", arm FROM trial WHERE experiment_number = ?1) c
JOIN fingerprint f ON f.experiment_number = ?1
