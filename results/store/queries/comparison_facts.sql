-- What was seen inside the nodes, the transports between their ranks, and (as host.…) the host itself, and the
-- facts of imported records (?2, a JSON list of their names; null: all). A trial that counts for nothing forbids nothing.
SELECT DISTINCT t."case", t.arm, f.key, f.value
FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id
JOIN fingerprint f ON f.node_id = n.id
WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1
UNION
SELECT DISTINCT t."case", t.arm, 'transport', w.transport
FROM trial t JOIN tenant w ON w.trial_id = t.id
WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1 AND w.transport IS NOT NULL
UNION
SELECT t."case", t.arm, 'isa', r.isa
FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN rank r ON r.tenant_id = w.id
WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1 AND r.isa IS NOT NULL
UNION
SELECT t."case", t.arm, 'threads_per_rank', CAST(r.threads AS TEXT)
FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN rank r ON r.tenant_id = w.id
WHERE t.experiment_number = ?1 AND t.status = 'finished' AND t.valid = 1 AND r.threads IS NOT NULL
UNION
SELECT c."case", c.arm, 'host.' || f.key, f.value
FROM (SELECT DISTINCT "case", arm FROM trial WHERE experiment_number = ?1) c
JOIN fingerprint f ON f.experiment_number = ?1
UNION
SELECT t."case", t.arm, m.key, CAST(m.value AS TEXT)
FROM trial t, json_each(t.environment) m
WHERE t.experiment_number = ?1 AND t.valid = 1 AND t.environment IS NOT NULL AND m.type IN ('text', 'integer', 'real')
  AND (?2 IS NULL OR m.key IN (SELECT value FROM json_each(?2)))
