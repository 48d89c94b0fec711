-- Of collectives between nodes; where nobody said how many those were, each rank is one.
SELECT arm, coalesce(transport, ''), coalesce(nodes, ranks), size_bytes, coalesce(seconds, size_bytes / value)
FROM probe
WHERE experiment_number = ? AND name = 'all_reduce' AND unit = 'B/s' AND size_bytes > 0 AND value > 0
  AND coalesce(nodes, ranks) > 1 AND coalesce(wrong, 0) = 0
ORDER BY rowid
