SELECT id, scenario, label, host_name, started_at, boot_id, json_extract(plan, '$.arms') AS arms FROM experiment WHERE number = ?
