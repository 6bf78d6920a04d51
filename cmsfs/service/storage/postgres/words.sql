-- The index of words: what FTS5 is in SQLite, with the same language and the same matches.  Each document's texts
-- are kept as words with a space around each, in lower case and without accents (letters.sql): a phrase is a part of such a
-- text, a beginning of a word is one with a space before it.  The set of all words has an index, which finds the
-- documents that may match.

-- NULL: there are more than an index takes.
CREATE FUNCTION word_set(content text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  RETURN array_to_tsvector(ARRAY(
    SELECT DISTINCT one FROM regexp_split_to_table(content, ' +') AS one WHERE one != '' AND octet_length(one) < 2000));
EXCEPTION WHEN program_limit_exceeded THEN
  RETURN NULL;
END $$;

CREATE TABLE document_words (
  id            bigint PRIMARY KEY REFERENCES document ON DELETE CASCADE,
  name          text NOT NULL,
  description   text NOT NULL,
  file_content  text NOT NULL,
  comments      text NOT NULL,
  tags          text NOT NULL,
  words         tsvector
);
CREATE INDEX document_words_all ON document_words USING gin (words) WITH (fastupdate = off);
CREATE INDEX document_words_many ON document_words (id) WHERE words IS NULL;

CREATE FUNCTION document_said() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said document_words;
BEGIN
  said := (NEW.id, words_of(NEW.name), words_of(NEW.description), words_of(NEW.file_content),
    words_of(NEW.comments), words_of(NEW.tags), NULL);
  said.words := word_set(said.name || said.description || said.file_content || said.comments || said.tags);
  INSERT INTO document_words SELECT said.* ON CONFLICT (id) DO UPDATE SET name = excluded.name,
    description = excluded.description, file_content = excluded.file_content, comments = excluded.comments,
    tags = excluded.tags, words = excluded.words;
  RETURN NULL;
END $$;
CREATE TRIGGER document_made AFTER INSERT ON document FOR EACH ROW EXECUTE FUNCTION document_said();
CREATE TRIGGER document_said AFTER UPDATE ON document FOR EACH ROW EXECUTE FUNCTION document_said();

-- Whether a text of one of these columns has a term, as SQL; and how much that says (a word in the name says more).
CREATE FUNCTION term_matches(term text, is_beginning boolean, columns text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  said text := words_of(term);
  wanted text := CASE WHEN is_beginning THEN rtrim(said) ELSE said END;
  parts text[] := string_to_array(btrim(said), ' ');
  found text;
BEGIN
  IF btrim(said) = '' THEN
    RETURN 'false';
  END IF;
  SELECT string_agg(format('strpos(%I, %L) > 0', one, wanted), ' OR ') INTO found FROM unnest(columns) AS one;
  IF octet_length(said) < 2000 THEN
    found := format('(words @@ %L::tsquery OR words IS NULL) AND (%s)', (
      SELECT string_agg(quote_literal(part) || CASE WHEN is_beginning AND n = cardinality(parts) THEN ':*' ELSE '' END,
        ' & ') FROM unnest(parts) WITH ORDINALITY AS t (part, n)), found);
  END IF;
  RETURN '(' || found || ')';
END $$;

CREATE TYPE found_word AS (rowid bigint, rank double precision);

-- What matches an expression of FTS5 as query/fts_query.py makes them.
CREATE FUNCTION word(expression text) RETURNS SETOF found_word LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
  all_columns CONSTANT text[] := '{name, description, file_content, comments, tags}';
  columns text[] := all_columns;
  of_name boolean := false;
  token text;
  condition text := '';
  rank text := '0';
BEGIN
  FOR token IN SELECT m[1] FROM regexp_matches(
    expression, '(\{[^}]*\} :|name :|"[^"]*"(?: \*)?|[()]|AND|OR|NOT)', 'g') AS m
  LOOP
    IF token LIKE '{%' THEN
      columns := string_to_array(btrim(token, '{} :'), ' ');
    ELSIF token = 'name :' THEN
      of_name := true;
    ELSIF token LIKE '"%' THEN
      condition := condition || ' ' || term_matches(substring(token FROM '^"([^"]*)"'), token LIKE '%*',
        CASE WHEN of_name THEN '{name}' ELSE columns END);
      rank := rank || format(' - 10 * (strpos(name, %1$L) > 0)::int - 4 * (strpos(description, %1$L) > 0)::int'
        ' - 4 * (strpos(tags, %1$L) > 0)::int - (strpos(file_content, %1$L) > 0)::int'
        ' - (strpos(comments, %1$L) > 0)::int', words_of(substring(token FROM '^"([^"]*)"')));
      of_name := false;
    ELSIF token = 'NOT' THEN
      condition := condition || ' AND NOT';
    ELSE
      condition := condition || ' ' || token;
    END IF;
  END LOOP;
  RETURN QUERY EXECUTE format('SELECT id, (%s)::double precision FROM document_words WHERE %s', rank, condition);
END $$;

CREATE FUNCTION bm25(found found_word, VARIADIC weights numeric[]) RETURNS double precision
LANGUAGE sql IMMUTABLE AS 'SELECT found.rank';
