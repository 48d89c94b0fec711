-- Where an arm of a case has pairs, its other trials are left out.
SELECT t."case", t.arm, n.tenant_index, max(n.name),
       coalesce(avg(n.images_per_second) FILTER (WHERE t.pair IS NOT NULL), avg(n.images_per_second)),
       coalesce(nullif(count(n.images_per_second) FILTER (WHERE t.pair IS NOT NULL), 0), count(n.images_per_second)),
       max(n.nodes), max(t.gpus_per_node), max(n.workload), max(n.transport)
FROM tenant n JOIN trial t ON t.id = n.trial_id
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1
GROUP BY t."case", t.arm, n.tenant_index
ORDER BY min(t.id), n.tenant_index
