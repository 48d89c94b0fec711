-- What was seen inside the nodes, the transports between their ranks, and (as host.…) the host itself.
SELECT DISTINCT t."case", t.arm, f.key, f.value
FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id
JOIN fingerprint f ON f.node_id = n.id
WHERE t.experiment_number = ?1 AND t.status = 'finished'
UNION
SELECT DISTINCT t."case", t.arm, 'transport', w.transport
FROM trial t JOIN tenant w ON w.trial_id = t.id
WHERE t.experiment_number = ?1 AND t.status = 'finished' AND w.transport IS NOT NULL
UNION
SELECT c."case", c.arm, 'host.' || f.key, f.value
FROM (SELECT DISTINCT "case", arm FROM trial WHERE experiment_number = ?1) c
JOIN fingerprint f ON f.experiment_number = ?1
UNION
SELECT DISTINCT t."case", t.arm, m.key, CAST(m.value AS TEXT)
FROM (SELECT DISTINCT "case", arm, environment FROM trial
      WHERE experiment_number = ?1 AND environment IS NOT NULL) t, json_each(t.environment) m
WHERE m.type IN ('text', 'integer', 'real')
