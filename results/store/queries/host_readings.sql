-- What the ranks of an experiment over several hosts have done in each usable trial, and on which host: their nodes say it.
SELECT t."case", t.arm, n.host, t.id, sum(s.images), sum(s.seconds), coalesce(r.exposed_allreduce_seconds, 0)
FROM experiment e
CROSS JOIN trial t ON t.experiment_number = e.number AND t.status = 'finished' AND t.valid = 1
CROSS JOIN tenant w ON w.trial_id = t.id
CROSS JOIN node n ON n.tenant_id = w.id AND n.host IS NOT NULL
CROSS JOIN rank r ON r.tenant_id = w.id AND r.node = n.name
CROSS JOIN sample s ON s.rank_id = r.id
WHERE e.id = ? AND t.throughput IS NOT NULL
GROUP BY r.id
