-- What an imported plan says in other types than ours is as good as absent.
SELECT id, scenario, label, host_name, started_at, boot_id, json_extract(plan, '$.arms') AS arms,
       CASE json_type(plan, '$.isolation.margin') WHEN 'real' THEN json_extract(plan, '$.isolation.margin') END AS isolation_margin,
       CASE json_type(plan, '$.isolation.seed') WHEN 'integer' THEN json_extract(plan, '$.isolation.seed') END AS isolation_seed,
       CASE json_type(plan, '$.looks') WHEN 'object' THEN json_extract(plan, '$.looks') END AS looks
FROM experiment WHERE number = ?
