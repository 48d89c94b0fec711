-- How many samples and readings an experiment has, and the last of each: equal only where none came or went.
SELECT s.count, s.last, r.count, r.last
FROM (SELECT count(*) AS count, coalesce(max(s.rowid), 0) AS last
      FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN rank k ON k.tenant_id = w.id JOIN sample s ON s.rank_id = k.id
      WHERE t.experiment_number = ?) s,
     (SELECT count(*) AS count, coalesce(max(r.rowid), 0) AS last
      FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id JOIN telemetry r ON r.node_id = n.id
      WHERE t.experiment_number = ?) r
