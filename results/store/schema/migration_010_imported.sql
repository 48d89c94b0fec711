-- Version 10: imported experiments are marked. Before it only records that name no host show that they were imported.
ALTER TABLE experiment ADD COLUMN imported INTEGER NOT NULL DEFAULT 0 CHECK (imported IN (0, 1));
UPDATE experiment SET imported = 1 WHERE host_name IS NULL;
