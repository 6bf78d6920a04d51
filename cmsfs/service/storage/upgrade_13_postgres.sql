-- A path may be longer than what the usual index takes.
DROP INDEX item_below, item_created, item_modified;
CREATE INDEX item_below ON item USING spgist (path) INCLUDE (status, modified_at, created_at, kind);
CREATE INDEX item_created ON item (owner, status, created_at, modified_at, kind);
CREATE INDEX item_modified ON item (owner, status, modified_at, created_at, kind);

-- Words have the letters that they have in SQLite (postgres/letters.sql).
UPDATE document SET name = name
  WHERE octet_length(name || description || file_content || comments || tags)
    != length(name || description || file_content || comments || tags);
