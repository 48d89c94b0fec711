-- Version 6: views for people with sqlite3, DuckDB or pandas. trial_id joins them; in the new ones a case is case_name,
-- which needs no quotes. Every column is grouped by or aggregated, as DuckDB wants it, and no LIKE hides a number.
CREATE VIEW v_experiment AS
SELECT e.id AS experiment, e.scenario, e.label, e.status, e.started_at, e.ended_at, e.host_name, e.boot_id,
       e.virtrain_version, e.command_line,
       (SELECT count(*) FROM trial t WHERE t.experiment_number = e.number) AS trials,
       (SELECT count(*) FROM trial t WHERE t.experiment_number = e.number AND t.status = 'finished') AS finished_trials,
       (SELECT count(*) FROM probe p WHERE p.experiment_number = e.number) AS probes
FROM experiment e;

-- What is known of the host (no trial, no node) and of each node.
CREATE VIEW v_fact AS
SELECT e.id AS experiment, NULL AS trial_id, NULL AS case_name, NULL AS arm, NULL AS pair, NULL AS tenant, NULL AS node,
       f.key, f.value
FROM fingerprint f JOIN experiment e ON e.number = f.experiment_number
UNION ALL
SELECT e.id, t.id, t."case", t.arm, t.pair, w.tenant_index, n.name, f.key, f.value
FROM fingerprint f JOIN node n ON n.id = f.node_id JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

CREATE VIEW v_event AS
SELECT e.id AS experiment, v.trial_id, t."case" AS case_name, t.arm, t.pair, v.t_ns, v.wall_time, v.stage, v.message,
       v.detail
FROM event v JOIN experiment e ON e.number = v.experiment_number LEFT JOIN trial t ON t.id = v.trial_id;

CREATE VIEW v_sample AS
SELECT e.id AS experiment, t.id AS trial_id, t."case" AS case_name, t.arm, t.pair, w.tenant_index AS tenant, r.rank,
       s.t_ns, s.step, s.images, s.seconds, s.images / s.seconds AS images_per_second, s.loss
FROM sample s JOIN rank r ON r.id = s.rank_id JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

DROP VIEW v_tenant;
CREATE VIEW v_tenant AS
SELECT e.id AS experiment, e.scenario, e.label, t."case", t.arm, t.pair, t.trial_order, n.tenant_index AS tenant,
       n.name, n.nodes, n.images_per_second, n.network_bytes_required, n.network_bytes_measured, n.loss_first,
       n.loss_last, n.transport, n.workload, t.status, t.valid, t.id AS trial_id
FROM tenant n JOIN trial t ON t.id = n.trial_id JOIN experiment e ON e.number = t.experiment_number;

DROP VIEW v_node;
CREATE VIEW v_node AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node, n.kind,
       n.domain_name, n.domain_uuid, n.guest_boot_id, n.hostname, n.cores, n.memory_bytes, n.numa_node,
       n.cpuset_read_back, n.memory_limit_read_back_bytes, n.clock_offset_ns, n.clock_uncertainty_ns, n.kernel,
       n.console_log, n.helper_cpu_seconds, n.agent_ready_seconds, t.id AS trial_id
FROM node n JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

DROP VIEW v_rank;
CREATE VIEW v_rank AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, r.node, r.rank,
       r.local_rank, r.size, r.hostname, r.pid, r.isa, r.threads, r.images_per_second, r.parameters_hash_before,
       r.parameters_hash_after, r.loss_first, r.loss_last, r.peak_rss_bytes, r.cpuset_read_back,
       r.memory_limit_read_back_bytes, r.step_p50_seconds, r.step_p95_seconds, r.step_p99_seconds,
       r.exposed_allreduce_seconds, t.id AS trial_id
FROM rank r JOIN tenant w ON w.id = r.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;

DROP VIEW v_trial_detail;
CREATE VIEW v_trial_detail AS
SELECT e.id AS experiment, e.scenario, e.label, row_number() OVER (PARTITION BY e.number ORDER BY t.id) AS trial,
       t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node, t.ranks_per_node, t.batch_size, t.precision,
       t.backend, t.virtualization, t.oversubscribed, t.status, t.images_per_second, t.started_at, t.ended_at,
       t.start_spread_ns, t.valid, t.invalid_reason, t.failed_stage, t.failure_reason, t.id AS trial_id
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

DROP VIEW v_telemetry;
CREATE VIEW v_telemetry AS
SELECT DISTINCT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node,
       m.source, m.metric, count(*) OVER whole AS readings, min(m.value) OVER whole AS minimum,
       avg(m.value) OVER whole AS mean, max(m.value) OVER whole AS maximum,
       first_value(m.value) OVER whole AS first, last_value(m.value) OVER whole AS last, t.id AS trial_id
FROM telemetry m JOIN node n ON n.id = m.node_id JOIN tenant w ON w.id = n.tenant_id
JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number
WINDOW whole AS (PARTITION BY m.node_id, m.source, m.metric ORDER BY m.t_ns, m.rowid
                 ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

DROP VIEW v_speedup;
CREATE VIEW v_speedup AS
WITH level AS (
  SELECT experiment, scenario, label, "case", arm, nodes,
         substr("case", 1, length("case") - length(CAST(nodes AS TEXT)) - 1) AS family,
         count(*) AS runs, avg(images_per_second) AS images_per_second
  FROM v_trial
  WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL
    AND substr("case", length("case") - length(CAST(nodes AS TEXT))) = '/' || CAST(nodes AS TEXT)
  GROUP BY experiment, scenario, label, "case", arm, nodes
)
SELECT n.experiment, n.scenario, n.label, n."case", n.arm, n.nodes, n.runs, n.images_per_second,
       n.images_per_second / one.images_per_second AS speedup,
       n.images_per_second / one.images_per_second / n.nodes AS efficiency
FROM level n JOIN level one
  ON one.experiment = n.experiment AND one.arm = n.arm AND one.family = n.family AND one.nodes = 1;

DROP VIEW v_vm_vs_bare_metal;
CREATE VIEW v_vm_vs_bare_metal AS
SELECT experiment, scenario, label, "case", pair,
       avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS bare_metal_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm') AS vm_images_per_second,
       avg(images_per_second) FILTER (WHERE arm = 'vm')
         / avg(images_per_second) FILTER (WHERE arm = 'bare_metal') AS ratio,
       max(virtualization) FILTER (WHERE arm = 'vm') AS virtualization
FROM v_trial
WHERE status = 'finished' AND valid = 1 AND images_per_second IS NOT NULL AND arm IN ('bare_metal', 'vm')
GROUP BY experiment, scenario, label, "case", pair
HAVING count(DISTINCT arm) = 2;
