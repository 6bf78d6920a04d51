-- From format 3 to 4 (schema.sql explains the columns).

-- Nodes that news took from their place.
CREATE TABLE lineage (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  parent       INTEGER,
  name         TEXT NOT NULL,
  successor    INTEGER
);
CREATE INDEX lineage_parent ON lineage(parent);
CREATE INDEX lineage_successor ON lineage(successor) WHERE successor IS NOT NULL;
