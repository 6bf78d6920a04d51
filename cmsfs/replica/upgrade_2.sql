-- From format 2 to 3 (schema.sql explains the columns).

-- Web links as they were written here.
CREATE TABLE shortcut (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  text         BLOB NOT NULL
);
