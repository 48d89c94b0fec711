-- The figures of commands of the user's own in all usable trials of an experiment, without their readings.
SELECT t."case", t.arm, t.id, w.tenant_index, coalesce(w.name, ''), f.node, f.rank, f.name, f.unit, f.value, f.settings
FROM experiment e
CROSS JOIN trial t ON t.experiment_number = e.number AND t.status = 'finished' AND t.valid = 1
CROSS JOIN tenant w ON w.trial_id = t.id
CROSS JOIN figure f ON f.tenant_id = w.id AND f.t_ns IS NULL
WHERE e.id = ?
ORDER BY f.rowid
