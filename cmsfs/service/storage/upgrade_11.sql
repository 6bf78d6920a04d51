-- `user` is a word that SQL keeps for itself, and so is `offset`: the table of users and every column that names
-- one is `account`, and a part's offset is its `start`.

DROP TRIGGER version_added;
DROP TRIGGER item_purged;
DROP TRIGGER version_removed;
DROP TRIGGER user_made;
DROP TRIGGER user_renamed;
DROP TRIGGER user_left;
DROP TRIGGER collaboration_made;
DROP TRIGGER collaboration_changed;
DROP TRIGGER collaboration_ended;
DROP TRIGGER email_alias_made;
DROP INDEX event_of_user;
DROP INDEX membership_of_user;
DROP INDEX collaboration_once;
DROP INDEX collaboration_of_user;
DROP INDEX collaboration_by_email;
DROP INDEX email_alias_of_user;

ALTER TABLE user RENAME TO account;
ALTER TABLE collaborator RENAME COLUMN user TO account;
ALTER TABLE exemption RENAME COLUMN user TO account;
ALTER TABLE family RENAME COLUMN user TO account;
ALTER TABLE code RENAME COLUMN user TO account;
ALTER TABLE token RENAME COLUMN user TO account;
ALTER TABLE password RENAME COLUMN user TO account;
ALTER TABLE login RENAME COLUMN user TO account;
ALTER TABLE upload_session RENAME COLUMN user TO account;
ALTER TABLE upload_part RENAME COLUMN offset TO start;
ALTER TABLE event RENAME COLUMN user TO account;
ALTER TABLE membership RENAME COLUMN user TO account;
ALTER TABLE collaboration RENAME COLUMN user TO account;
ALTER TABLE recent_link RENAME COLUMN user TO account;
ALTER TABLE favorite RENAME COLUMN user TO account;
ALTER TABLE task_assignment RENAME COLUMN user TO account;
ALTER TABLE email_alias RENAME COLUMN user TO account;
ALTER TABLE avatar RENAME COLUMN user TO account;
ALTER TABLE invite RENAME COLUMN user TO account;
ALTER TABLE terms_status RENAME COLUMN user TO account;
ALTER TABLE storage_assignment RENAME COLUMN user TO account;

CREATE INDEX event_of_user ON event (account, id);
CREATE INDEX membership_of_user ON membership (account, user_group);
CREATE UNIQUE INDEX collaboration_once ON collaboration (item, coalesce(account, email));
CREATE INDEX collaboration_of_user ON collaboration (account, status);
CREATE INDEX collaboration_by_email ON collaboration (email) WHERE account IS NULL;
CREATE INDEX email_alias_of_user ON email_alias (account);
CREATE TRIGGER version_added AFTER INSERT ON version BEGIN
  UPDATE account SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
END;
CREATE TRIGGER item_purged BEFORE DELETE ON item BEGIN
  UPDATE account SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
END;
CREATE TRIGGER version_removed AFTER DELETE ON version BEGIN
  UPDATE account SET space_used = space_used - OLD.size WHERE id = (SELECT owner FROM item WHERE id = OLD.file);
END;
CREATE TRIGGER user_made AFTER INSERT ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_renamed AFTER UPDATE OF login ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_left AFTER UPDATE OF enterprise ON account BEGIN
  DELETE FROM collaboration WHERE account = NEW.id AND NEW.enterprise = 0;
  DELETE FROM membership WHERE account = NEW.id AND user_group IN (
    SELECT id FROM user_group WHERE enterprise != NEW.enterprise);
  DELETE FROM collaborator WHERE account = NEW.id AND enterprise = NEW.enterprise;
  INSERT OR IGNORE INTO collaborator SELECT DISTINCT enterprise, account FROM collaboration
    WHERE account = NEW.id AND status = 'accepted' AND enterprise != NEW.enterprise;
END;
CREATE TRIGGER collaboration_made AFTER INSERT ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM account WHERE id = NEW.account) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.account);
END;
CREATE TRIGGER collaboration_changed AFTER UPDATE OF status ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM account WHERE id = NEW.account) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.account);
END;
CREATE TRIGGER collaboration_ended AFTER DELETE ON collaboration WHEN OLD.status = 'accepted' BEGIN
  DELETE FROM collaborator WHERE enterprise = OLD.enterprise AND account = OLD.account AND NOT EXISTS (
    SELECT 1 FROM collaboration WHERE enterprise = OLD.enterprise AND account = OLD.account AND status = 'accepted');
END;
CREATE TRIGGER email_alias_made AFTER INSERT ON email_alias BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.account WHERE account IS NULL AND email = NEW.email;
END;
