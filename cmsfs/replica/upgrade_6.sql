-- From format 6 to 7 (schema.sql explains the column).

ALTER TABLE lineage ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
