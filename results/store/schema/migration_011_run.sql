-- Version 11: which run measured a probe's figure, so that three runs are told from three readings of one.
ALTER TABLE probe ADD COLUMN run INTEGER CHECK (run >= 1);

DROP VIEW v_probe;
CREATE VIEW v_probe AS
SELECT e.id AS experiment, e.scenario, e.label, p.name, p.arm, p.node, p.transport, p.data_type, p.nodes, p.ranks,
       p.size_bytes, p.seconds, p.value, p.unit, p.bus_bytes_per_second, p.wrong, p.measured_at, p.detail, p.run
FROM probe p JOIN experiment e ON e.number = p.experiment_number;
