-- From format 10 to 11 (schema.sql explains the table).

CREATE TABLE deleted (
  id           INTEGER PRIMARY KEY,
  kind         TEXT NOT NULL,
  remote_id    TEXT NOT NULL,
  sequence     INTEGER NOT NULL,
  UNIQUE (kind, remote_id)
);
