-- Every experiment that can be a night of a series, in the order of storing. What virtrain bisect ran is none.
SELECT number, id, scenario, scenario_text, label, started_at, host_name, virtrain_version, daemon_versions,
       imported
FROM experiment WHERE scenario IS NULL OR substr(scenario, -7) <> '.bisect' ORDER BY number
