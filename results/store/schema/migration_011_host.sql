-- Version 11: the host of a node, where the experiment has several, is a column. Before, it was among the node's properties.
ALTER TABLE node ADD COLUMN host TEXT CHECK (host <> '');
UPDATE node SET host = f.value FROM fingerprint f WHERE f.node_id = node.id AND f.key = 'host' AND f.value <> '';
DELETE FROM fingerprint WHERE node_id IS NOT NULL AND key = 'host';

DROP VIEW v_node;
CREATE VIEW v_node AS
SELECT e.id AS experiment, t."case", t.arm, t.pair, t.trial_order, w.tenant_index AS tenant, n.name AS node, n.kind,
       n.domain_name, n.domain_uuid, n.guest_boot_id, n.hostname, n.cores, n.memory_bytes, n.numa_node,
       n.cpuset_read_back, n.memory_limit_read_back_bytes, n.clock_offset_ns, n.clock_uncertainty_ns, n.kernel,
       n.console_log, n.helper_cpu_seconds, n.agent_ready_seconds, t.id AS trial_id, t."case" AS case_name, n.host
FROM node n JOIN tenant w ON w.id = n.tenant_id JOIN trial t ON t.id = w.trial_id
JOIN experiment e ON e.number = t.experiment_number;
