SELECT id, scenario, label, host_name, started_at, boot_id FROM experiment WHERE number = ?
