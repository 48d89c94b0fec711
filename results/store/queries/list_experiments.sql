SELECT e.id, e.scenario, e.label, e.started_at, e.ended_at, e.status, e.host_name, e.virtrain_version,
       count(t.id), count(t.id) FILTER (WHERE t.status = 'finished'),
       count(t.id) FILTER (WHERE t.status = 'failed'), count(t.id) FILTER (WHERE t.status = 'interrupted'),
       (SELECT count(*) FROM probe p WHERE p.experiment_number = e.number)
FROM experiment e LEFT JOIN trial t ON t.experiment_number = e.number
GROUP BY e.number
ORDER BY e.number
