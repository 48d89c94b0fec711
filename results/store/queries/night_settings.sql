-- What a night's trials were, by case and arm, as facts: imported ones have nothing else to tell them apart by.
WITH good AS (
  SELECT * FROM trial WHERE experiment_number = ?1 AND status = 'finished' AND valid = 1
)
SELECT DISTINCT "case", arm, 'virtualization', virtualization, NULL, coalesce(unit, 'images/s') FROM good WHERE virtualization IS NOT NULL
UNION ALL
SELECT DISTINCT "case", arm, 'precision', precision, NULL, coalesce(unit, 'images/s') FROM good WHERE precision IS NOT NULL
UNION ALL
SELECT DISTINCT "case", arm, 'backend', backend, NULL, coalesce(unit, 'images/s') FROM good WHERE backend IS NOT NULL
UNION ALL
SELECT DISTINCT "case", arm, 'batch_size', CAST(batch_size AS TEXT), NULL, coalesce(unit, 'images/s') FROM good WHERE batch_size IS NOT NULL
