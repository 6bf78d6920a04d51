-- From format 9 to 10 (schema.sql explains the column).  What is there keeps the numbers that programs know.

ALTER TABLE node ADD COLUMN number INTEGER;
CREATE UNIQUE INDEX node_number ON node(number) WHERE number IS NOT NULL;
