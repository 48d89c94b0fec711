-- Version 4: what exports and evidence bundles need beyond the views of version 1.
-- domain_xml is what libvirt was given to start the VM.
ALTER TABLE node ADD COLUMN domain_xml TEXT;

-- As v_trial, with what was run; `trial` counts the trials of an experiment from 1.
CREATE VIEW v_trial_detail AS
SELECT e.id AS experiment, e.scenario, e.label, row_number() OVER (PARTITION BY e.number ORDER BY t.id) AS trial,
       t."case", t.arm, t.pair, t.trial_order, t.nodes, t.gpus_per_node, t.ranks_per_node, t.batch_size, t.precision,
       t.backend, t.virtualization, t.oversubscribed, t.status, t.images_per_second, t.started_at, t.ended_at,
       t.start_spread_ns, t.valid, t.invalid_reason, t.failed_stage, t.failure_reason
FROM trial t JOIN experiment e ON e.number = t.experiment_number;

-- Each metric of each node over its trial; of a counter, `last` minus `first` is what the trial added.
CREATE VIEW v_telemetry AS
SELECT DISTINCT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node,
       m.source, m.metric, count(*) OVER whole AS readings, min(m.value) OVER whole AS minimum,
       avg(m.value) OVER whole AS mean, max(m.value) OVER whole AS maximum,
       first_value(m.value) OVER whole AS first, last_value(m.value) OVER whole AS last
FROM telemetry m JOIN node n ON n.id = m.node_id JOIN tenant w ON w.id = n.tenant_id
JOIN trial t ON t.id = w.trial_id JOIN experiment e ON e.number = t.experiment_number
WINDOW whole AS (PARTITION BY m.node_id, m.source, m.metric ORDER BY m.t_ns, m.rowid
                 ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);
