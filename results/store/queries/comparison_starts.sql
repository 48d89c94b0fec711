-- When the trials of an experiment began; those that do not say it began with the experiment.
SELECT DISTINCT coalesce(t.started_at, e.started_at)
FROM experiment e JOIN trial t ON t.experiment_number = e.number
WHERE e.number = ? AND coalesce(t.started_at, e.started_at) IS NOT NULL
