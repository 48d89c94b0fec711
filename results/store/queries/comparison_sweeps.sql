SELECT arm, coalesce(transport, ''), coalesce(CASE WHEN nodes > 1 THEN nodes END, ranks), size_bytes,
       coalesce(seconds, size_bytes / value)
FROM probe
WHERE experiment_number = ? AND name = 'all_reduce' AND unit = 'B/s' AND size_bytes > 0 AND value > 0
  AND coalesce(CASE WHEN nodes > 1 THEN nodes END, ranks) > 1 AND coalesce(wrong, 0) = 0
ORDER BY rowid
