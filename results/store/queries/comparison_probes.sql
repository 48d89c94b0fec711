-- Figures of micro-benchmarks by arm; of a collective the best bus bandwidth of its sweep. Products also by
-- the type that they multiply: gemm.bfloat16.
SELECT '', arm, 'probe.' || name,
       CASE WHEN count(bus_bytes_per_second) > 0 THEN max(bus_bytes_per_second) ELSE avg(value) END, count(*)
FROM probe
WHERE experiment_number = ?1 AND coalesce(wrong, 0) = 0
GROUP BY arm, name
UNION ALL
SELECT '', arm, 'probe.' || name || '.' || data_type, avg(value), count(*)
FROM probe
WHERE experiment_number = ?1 AND coalesce(wrong, 0) = 0 AND name IN ('gemm', 'gpu_gemm') AND data_type IS NOT NULL
GROUP BY arm, name, data_type
