-- Figures of micro-benchmarks by arm; of a collective the best bus bandwidth of its sweep.
SELECT arm, name,
       CASE WHEN count(bus_bytes_per_second) > 0 THEN max(bus_bytes_per_second) ELSE avg(value) END, count(*)
FROM probe
WHERE experiment_number = ? AND coalesce(wrong, 0) = 0
GROUP BY arm, name
