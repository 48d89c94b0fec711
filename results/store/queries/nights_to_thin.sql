-- Nights of a scenario that began before a moment and still have samples, telemetry or
-- readings of figures. Nights whose beginning is not known
-- are not old. What bisect ran of the scenario goes with its nights; its names have at most 64 characters.
SELECT e.number FROM experiment e
WHERE e.scenario IN (?1, substr(?1, 1, 57) || '.bisect') AND e.started_at < ?2 AND e.status <> 'running' AND (
  EXISTS (SELECT 1 FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN rank r ON r.tenant_id = w.id
                    JOIN sample s ON s.rank_id = r.id WHERE t.experiment_number = e.number)
  OR EXISTS (SELECT 1 FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id
                    JOIN telemetry m ON m.node_id = n.id WHERE t.experiment_number = e.number)
  OR EXISTS (SELECT 1 FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN figure f ON f.tenant_id = w.id
                    WHERE t.experiment_number = e.number AND f.t_ns IS NOT NULL))
ORDER BY e.number
