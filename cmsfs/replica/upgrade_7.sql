-- From format 7 to 8 (schema.sql explains the column).

ALTER TABLE draft ADD COLUMN data BLOB;
