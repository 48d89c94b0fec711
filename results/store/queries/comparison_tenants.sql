SELECT t."case", t.arm, n.tenant_index, max(n.name), avg(n.images_per_second), count(n.images_per_second), max(n.nodes),
       max(t.gpus_per_node), max(n.workload), max(n.transport)
FROM tenant n JOIN trial t ON t.id = n.trial_id
WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1
GROUP BY t."case", t.arm, n.tenant_index
ORDER BY min(t.id), n.tenant_index
