-- Where an arm of a case has pairs, its other trials are left out. A figure in another unit than its trial's does not count.
WITH measured AS (
  SELECT t.id, t."case", t.arm, t.pair, t.gpus_per_node, n.tenant_index, n.name, n.nodes, n.workload, n.transport,
         coalesce(t.unit, n.unit, 'images/s') AS unit, CASE WHEN n.unit = coalesce(t.unit, n.unit) THEN n.throughput END AS throughput
  FROM tenant n JOIN trial t ON t.id = n.trial_id
  WHERE t.experiment_number = ? AND t.status = 'finished' AND t.valid = 1
)
SELECT "case", arm, tenant_index, max(name),
       coalesce(avg(throughput) FILTER (WHERE pair IS NOT NULL), avg(throughput)),
       coalesce(nullif(count(throughput) FILTER (WHERE pair IS NOT NULL), 0), count(throughput)),
       max(nodes), max(gpus_per_node), max(workload), max(transport), unit
FROM measured
GROUP BY "case", arm, unit, tenant_index
ORDER BY min(id), tenant_index
