-- ?1 scenario or NULL, ?2 label or NULL; only experiments that have trials, or with ?4 those with security probes too. Where the last one alone is wanted (?3), published
-- figures, which came as a yardstick, are it only if there is nothing else.
SELECT id FROM experiment e
WHERE (?1 IS NULL OR scenario = ?1) AND (?2 IS NULL OR label = ?2)
  AND (EXISTS (SELECT 1 FROM trial t WHERE t.experiment_number = e.number)
    OR (?4 AND EXISTS (SELECT 1 FROM security_probe s WHERE s.experiment_number = e.number)))
ORDER BY ?3 AND coalesce(label, '') = 'published' DESC, number
