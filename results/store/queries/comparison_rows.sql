SELECT "case", arm, pair, trial_order, nodes, gpus_per_node, batch_size, precision, backend, virtualization,
       oversubscribed, status, images_per_second, valid
FROM trial
WHERE experiment_number = ?
ORDER BY id
