-- The figures of every night. Trials that failed or are not valid count for none, and two units make two figures.
WITH good AS (
  SELECT id, experiment_number AS night, "case", arm, pair, nodes, throughput, unit, family, scale, point
  FROM trial
  WHERE status = 'finished' AND valid = 1 AND throughput IS NOT NULL
), mean AS (
  SELECT night, "case", arm, unit, nodes, max(family) AS family, max(scale) AS scale, max(coalesce(point, '')) AS point,
         coalesce(avg(throughput) FILTER (WHERE pair IS NOT NULL), avg(throughput)) AS throughput
  FROM good GROUP BY night, "case", arm, unit
), unpaired AS (
  SELECT night, "case", arm, unit, avg(ln(throughput)) AS log_mean FROM good
  GROUP BY night, "case", arm, unit HAVING count(pair) = 0
), sound AS (
  SELECT experiment_number, arm, name, transport, data_type, nodes, ranks, size_bytes, value, unit, wrong,
         CASE WHEN json_valid(settings) THEN settings END AS settings,
         coalesce(CASE WHEN json_valid(detail) THEN json_extract(detail, '$.device') END, '') AS device
  FROM probe
), probed AS (
  -- A device that is one of several in the arm was chosen, and tells figures apart.
  SELECT *, CASE WHEN min(device) OVER alike <> max(device) OVER alike THEN nullif(device, '') END AS chosen_device
  FROM sound
  WINDOW alike AS (PARTITION BY experiment_number, arm, name, unit, data_type, nodes, ranks, size_bytes, settings)
)
SELECT night, "case", arm, 'throughput', CASE unit WHEN 'images/s' THEN 'images_per_second' ELSE 'throughput' END, unit, throughput, '', ''
FROM mean
UNION ALL
SELECT v.night, v."case", v.arm, 'ratio', 'ratio' || CASE v.unit WHEN 'images/s' THEN '' ELSE ' of ' || v.unit END, '',
       exp(avg(ln(v.throughput / b.throughput))), '', ''
FROM good v JOIN good b ON b.night = v.night AND b."case" = v."case" AND b.pair = v.pair AND b.arm = 'bare_metal'
  AND b.unit = v.unit
WHERE v.arm <> 'bare_metal' GROUP BY v.night, v."case", v.arm, v.unit
UNION ALL
SELECT v.night, v."case", v.arm, 'ratio', 'ratio' || CASE v.unit WHEN 'images/s' THEN '' ELSE ' of ' || v.unit END, '',
       exp(v.log_mean - b.log_mean), '', ''
FROM unpaired v JOIN unpaired b ON b.night = v.night AND b."case" = v."case" AND b.arm = 'bare_metal' AND b.unit = v.unit
WHERE v.arm <> 'bare_metal'
UNION ALL
SELECT n.night, n."case", n.arm, 'efficiency', 'efficiency' || CASE n.unit WHEN 'images/s' THEN '' ELSE ' of ' || n.unit END, '',
       n.throughput / one.throughput / n.nodes, '', ''
FROM mean n JOIN mean one ON one.night = n.night AND one.arm = n.arm AND one.unit = n.unit AND one.scale = 1
  AND one.family = n.family AND one.point = n.point
WHERE n.nodes > 1 AND n.scale = n.nodes
UNION ALL
SELECT g.night, g."case", g.arm, 'step_p99', 'step_p99' || CASE g.unit WHEN 'images/s' THEN '' ELSE ' of ' || g.unit END, 's', avg(r.step_p99_seconds), '', ''
FROM good g JOIN tenant w ON w.trial_id = g.id JOIN rank r ON r.tenant_id = w.id
WHERE r.step_p99_seconds IS NOT NULL GROUP BY g.night, g."case", g.arm, g.unit
UNION ALL
SELECT g.night, g."case", g.arm, 'boot', 'boot' || CASE g.unit WHEN 'images/s' THEN '' ELSE ' of ' || g.unit END, 's', avg(n.agent_ready_seconds), '', ''
FROM good g JOIN tenant w ON w.trial_id = g.id JOIN node n ON n.tenant_id = w.id
WHERE n.kind = 'vm' AND n.agent_ready_seconds > 0 GROUP BY g.night, g."case", g.arm, g.unit
UNION ALL
SELECT experiment_number, NULL, arm, 'probe',
       'probe.' || name || coalesce('.' || transport, '') || coalesce('.' || data_type, '') || coalesce('.' || ranks, '') ||
       coalesce('.' || nullif(json_remove(settings, '$.side'), '{}'), '') || coalesce('.' || chosen_device, ''),
       unit, avg(value), coalesce(group_concat(DISTINCT size_bytes), ''),
       coalesce('.' || nodes || '-nodes', '') || coalesce('.' || replace(json_extract(settings, '$.side'), ' ', '-'), '')
FROM probed WHERE value > 0 AND coalesce(wrong, 0) = 0 GROUP BY experiment_number, arm, 5, unit, nodes, settings
