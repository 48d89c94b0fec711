SELECT "case", arm, pair, trial_order, nodes, gpus_per_node, ranks_per_node, batch_size, precision, backend, virtualization,
       oversubscribed, status, valid, started_at, json_extract(environment, '$.boot_id'), id,
       family, scale, point, arm_like, neighbour, level, throughput, coalesce(unit, 'images/s')
FROM trial
WHERE experiment_number = ?
ORDER BY id
