-- What was asked of the service for an enterprise in an hour, and what its users had stored at the end of it.
CREATE TABLE usage (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  hour        INTEGER NOT NULL,                -- hours since 1970
  requests    INTEGER NOT NULL,
  space_used  INTEGER NOT NULL,                -- bytes of all versions
  PRIMARY KEY (enterprise, hour)
) WITHOUT ROWID;
