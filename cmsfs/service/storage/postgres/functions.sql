-- Functions that SQLite has, with the same answers for what is asked of them here.  JSON is text in the tables.

CREATE FUNCTION json_extract(data text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN path = '$' THEN data::json #>> '{}'
    WHEN path LIKE '$."%"' THEN data::json ->> substr(path, 4, length(path) - 4)
    ELSE data::json #>> string_to_array(substr(path, 3), '.') END
$$;

-- A row for each element of an array or member of an object: its value as text.
CREATE FUNCTION json_each(data text) RETURNS TABLE (key text, value text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE ROWS 20 AS $$
BEGIN
  CASE json_typeof(data::json)
    WHEN 'array' THEN
      RETURN QUERY SELECT (n - 1)::text, one FROM json_array_elements_text(data::json) WITH ORDINALITY AS t (one, n);
    WHEN 'object' THEN
      RETURN QUERY SELECT t.key, t.value FROM json_each_text(data::json) AS t;
    ELSE
      RETURN QUERY SELECT NULL::text, data::json #>> '{}' WHERE data IS NOT NULL;
  END CASE;
END $$;
CREATE FUNCTION json_each(data text, path text) RETURNS TABLE (key text, value text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20 AS $$
  SELECT t.key, t.value FROM json_each((data::json -> substr(path, 4, length(path) - 4))::text) AS t
$$;

CREATE FUNCTION json_member(data text, name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT data::json ->> name
$$;
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_member);
CREATE FUNCTION json_element(data text, place integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT data::json ->> place
$$;
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = integer, FUNCTION = json_element);

CREATE FUNCTION instr(whole text, part text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT strpos(whole, part)::bigint
$$;

CREATE FUNCTION unixepoch(moment text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT floor(extract(epoch FROM moment::timestamptz))::bigint
$$;

-- The larger and the smaller of two; of nothing there is neither.
CREATE FUNCTION max(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END';
CREATE FUNCTION min(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END';

CREATE FUNCTION group_concat_next(text, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT CASE WHEN $2 IS NULL THEN $1 ELSE concat_ws(',', $1, $2) END $$;
CREATE AGGREGATE group_concat(bigint) (SFUNC = group_concat_next, STYPE = text);

-- Patterns: `like(pattern, text, escape)` minds no case, `glob(pattern, text)` does; of its sets only [*], [?]
-- and [[].
CREATE FUNCTION "like"(pattern text, value text, escape text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
  'SELECT value ILIKE pattern ESCAPE escape';
CREATE FUNCTION glob(pattern text, value text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT value LIKE replace(replace(replace(translate(replace(replace(replace(
    regexp_replace(pattern, '([\\%_])', '\\\1', 'g'), '[*]', chr(1)), '[?]', chr(2)), '[[]', chr(3)),
    '*?', '%_'), chr(1), '*'), chr(2), '?'), chr(3), '[')
$$;
