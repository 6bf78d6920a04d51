-- From format 2 to 3 (schema.sql explains the columns).

CREATE INDEX node_locked ON node(ino) WHERE instr(item, '"lock":') > 0;
