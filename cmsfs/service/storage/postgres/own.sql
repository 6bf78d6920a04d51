-- What a database of PostgreSQL has besides the tables and indices of schema.sql: what its processes share, the
-- functions that SQLite has and it has not, and the triggers of schema.sql in its language.  One text.

-- What all processes share beside the data: the format, the key that addresses are signed with.
CREATE TABLE shared_value (
  name   text COLLATE "C" PRIMARY KEY,
  value  bytea NOT NULL
);

-- Wrong secrets, by who guessed and what for (see attempt_limits.py); nothing that must outlive a crash.
CREATE UNLOGGED TABLE attempt (
  who    text COLLATE "C" NOT NULL,            -- '': of an account as a whole
  what   text COLLATE "C" NOT NULL,
  wrong  bigint NOT NULL,
  until  bigint NOT NULL,                      -- until then nobody is judged
  at     bigint NOT NULL,                      -- the last one
  PRIMARY KEY (who, what)
);
CREATE INDEX attempt_by_age ON attempt (at);

-- Count a guess, as AttemptLimits.take does; how long it has to wait, in microseconds.  The row of the account is
-- locked first: guesses at one account are counted one after another.
CREATE FUNCTION attempt_take(
  guesser text, wanted text, moment bigint, free bigint, many bigint, most_wait bigint, remembered bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE account attempt; pair attempt; allowed bigint;
BEGIN
  DELETE FROM attempt WHERE (who, what) IN (
    SELECT who, what FROM attempt WHERE at < moment - remembered AND attempt.until <= moment
      ORDER BY at LIMIT 10 FOR UPDATE SKIP LOCKED);
  INSERT INTO attempt AS a VALUES ('', wanted, 0, 0, moment) ON CONFLICT (who, what) DO UPDATE SET at = moment,
    wrong = CASE WHEN a.at < moment - remembered AND a.until <= moment THEN 0 ELSE a.wrong END
    RETURNING * INTO account;
  INSERT INTO attempt AS a VALUES ('by ' || guesser, wanted, 0, 0, moment)
    ON CONFLICT (who, what) DO UPDATE SET at = moment,
    wrong = CASE WHEN a.at < moment - remembered AND a.until <= moment THEN 0 ELSE a.wrong END
    RETURNING * INTO pair;
  IF pair.until > moment THEN
    RETURN pair.until - moment;
  END IF;
  allowed := CASE WHEN account.wrong + 1 <= many THEN free ELSE 1 END;
  UPDATE attempt SET wrong = wrong + 1 WHERE who = '' AND what = wanted;
  UPDATE attempt SET wrong = pair.wrong + 1, until = CASE WHEN pair.wrong + 1 >= allowed
      THEN moment + least((2 ^ least(pair.wrong + 1 - allowed, 20))::bigint * 1000000, most_wait)
      ELSE attempt.until END
    WHERE who = pair.who AND what = wanted;
  RETURN 0;
END $$;

-- Space used.
CREATE FUNCTION version_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE account SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
  RETURN NULL;
END $$;
CREATE TRIGGER version_added AFTER INSERT ON version FOR EACH ROW EXECUTE FUNCTION version_added();

CREATE FUNCTION item_purged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE account SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
  RETURN OLD;
END $$;
CREATE TRIGGER item_purged BEFORE DELETE ON item FOR EACH ROW EXECUTE FUNCTION item_purged();

CREATE FUNCTION version_orphaned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM version WHERE sha1 = OLD.sha1) THEN
    INSERT INTO orphan VALUES (OLD.sha1) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER version_orphaned AFTER DELETE ON version FOR EACH ROW EXECUTE FUNCTION version_orphaned();

CREATE FUNCTION version_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE account SET space_used = space_used - OLD.size WHERE id = (SELECT owner FROM item WHERE id = OLD.file);
  RETURN NULL;
END $$;
CREATE TRIGGER version_removed AFTER DELETE ON version FOR EACH ROW EXECUTE FUNCTION version_removed();

-- What search looks at.
CREATE FUNCTION item_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO document (id, name, description, tags) VALUES (NEW.id, NEW.name, NEW.description, NEW.tags);
  RETURN NULL;
END $$;
CREATE TRIGGER item_made AFTER INSERT ON item FOR EACH ROW WHEN (NEW.parent IS NOT NULL)
  EXECUTE FUNCTION item_made();

CREATE FUNCTION item_said() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE document SET name = NEW.name, description = NEW.description, tags = NEW.tags WHERE id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER item_said AFTER UPDATE OF name, description, tags ON item FOR EACH ROW
  EXECUTE FUNCTION item_said();

CREATE FUNCTION comments_of(wanted bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE document SET comments = coalesce(
    (SELECT string_agg(message, chr(10) ORDER BY id) FROM comment WHERE item = wanted), '') WHERE id = wanted;
$$;
CREATE FUNCTION comment_said() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM comments_of(CASE WHEN TG_OP = 'DELETE' THEN OLD.item ELSE NEW.item END);
  RETURN NULL;
END $$;
CREATE TRIGGER comment_made AFTER INSERT ON comment FOR EACH ROW EXECUTE FUNCTION comment_said();
CREATE TRIGGER comment_said AFTER UPDATE OF message ON comment FOR EACH ROW EXECUTE FUNCTION comment_said();
CREATE TRIGGER comment_gone AFTER DELETE ON comment FOR EACH ROW EXECUTE FUNCTION comment_said();

-- Whoever gets the address that was invited has the invitation, unless invited to the same already.
CREATE FUNCTION take_invitations(invited bigint, address text) RETURNS void LANGUAGE sql AS $$
  UPDATE collaboration AS c SET account = invited WHERE account IS NULL AND email = address
    AND NOT EXISTS (SELECT 1 FROM collaboration AS other
      WHERE other.item = c.item AND coalesce(other.account::text, other.email) = invited::text);
$$;
CREATE FUNCTION user_has_login() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM take_invitations(NEW.id, lower(NEW.login));
  RETURN NULL;
END $$;
CREATE TRIGGER user_made AFTER INSERT ON account FOR EACH ROW WHEN (NEW.login IS NOT NULL)
  EXECUTE FUNCTION user_has_login();
CREATE TRIGGER user_renamed AFTER UPDATE OF login ON account FOR EACH ROW WHEN (NEW.login IS NOT NULL)
  EXECUTE FUNCTION user_has_login();
CREATE FUNCTION email_alias_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM take_invitations(NEW.account, NEW.email);
  RETURN NULL;
END $$;
CREATE TRIGGER email_alias_made AFTER INSERT ON email_alias FOR EACH ROW EXECUTE FUNCTION email_alias_made();

-- Enterprise 0 is that of deleted users.
CREATE FUNCTION user_left() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.enterprise = 0 THEN
    DELETE FROM collaboration WHERE account = NEW.id;
  END IF;
  DELETE FROM membership WHERE account = NEW.id AND user_group IN (
    SELECT id FROM user_group WHERE enterprise != NEW.enterprise);
  DELETE FROM collaborator WHERE account = NEW.id AND enterprise = NEW.enterprise;
  INSERT INTO collaborator SELECT DISTINCT enterprise, account FROM collaboration
    WHERE account = NEW.id AND status = 'accepted' AND enterprise != NEW.enterprise ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER user_left AFTER UPDATE OF enterprise ON account FOR EACH ROW EXECUTE FUNCTION user_left();

-- Who collaborates from elsewhere is known to the enterprise for as long as that lasts.
CREATE FUNCTION collaboration_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.enterprise != (SELECT enterprise FROM account WHERE id = NEW.account) THEN
    INSERT INTO collaborator VALUES (NEW.enterprise, NEW.account) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER collaboration_made AFTER INSERT ON collaboration FOR EACH ROW WHEN (NEW.status = 'accepted')
  EXECUTE FUNCTION collaboration_made();
CREATE TRIGGER collaboration_changed AFTER UPDATE OF status ON collaboration FOR EACH ROW
  WHEN (NEW.status = 'accepted') EXECUTE FUNCTION collaboration_made();
CREATE FUNCTION collaboration_ended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  DELETE FROM collaborator WHERE enterprise = OLD.enterprise AND account = OLD.account AND NOT EXISTS (
    SELECT 1 FROM collaboration
      WHERE enterprise = OLD.enterprise AND account = OLD.account AND status = 'accepted');
  RETURN NULL;
END $$;
CREATE TRIGGER collaboration_ended AFTER DELETE ON collaboration FOR EACH ROW WHEN (OLD.status = 'accepted')
  EXECUTE FUNCTION collaboration_ended();

-- Whatever comes below a folder with a cascade policy has its metadata; the nearest folder counts.
CREATE FUNCTION item_under_policy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT 1 FROM cascade_policy) THEN
    INSERT INTO metadata_instance (uuid, item, template, data, type_version)
      SELECT gen_random_uuid()::text, NEW.id, m.template, m.data, m.type_version
      FROM cascade_policy AS p JOIN metadata_instance AS m ON m.item = p.folder AND m.template = p.template
      WHERE p.folder = ANY (string_to_array(trim(NEW.path, '/'), '/')::bigint[])
      ORDER BY strpos(NEW.path, '/' || p.folder || '/') DESC
      ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER item_under_policy AFTER INSERT ON item FOR EACH ROW WHEN (NEW.kind < 2)
  EXECUTE FUNCTION item_under_policy();
CREATE TRIGGER item_came_under_policy AFTER UPDATE OF path ON item FOR EACH ROW
  WHEN (NEW.kind < 2 AND OLD.path != NEW.path) EXECUTE FUNCTION item_under_policy();
