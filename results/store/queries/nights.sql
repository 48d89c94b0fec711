-- Every experiment that can be a night of a series, in the order of storing.
SELECT number, id, scenario, scenario_text, label, started_at, host_name, virtrain_version, daemon_versions
FROM experiment ORDER BY number
