"""A user of the service's web pages: changes without a drive, which replace contents unread."""

from contextlib import suppress
from datetime import UTC, timedelta

import httpx
import trio

from cmsfs import errors
from cmsfs.client import session
from cmsfs.client.content.uploads import BytesSource
from cmsfs.models import base
from cmsfs.models.content import uploads
from cmsfs.models.enterprise import collaborations, retention
from tests.simulation.ledger import ANY, Ledger, sha1
from tests.simulation.machines import OTHER, Service
from tests.simulation.promises import FOLDERS, NAMES
from tests.simulation.world import World

ROLES: tuple[collaborations.Role, ...] = ("editor", "editor", "viewer", "viewer uploader")

# All contents of an item and of everything below it, also those of earlier versions.
_BELOW = """
  WITH RECURSIVE below(id) AS (
    SELECT id FROM item WHERE id = ?1
    UNION SELECT item.id FROM item JOIN below ON item.parent = below.id)
  SELECT sha1 FROM version JOIN below ON below.id = version.file
"""


class Person:
    """Changes random existing items; refused changes are ignored."""

    def __init__(
        self,
        world: World,
        client: session.Client,
        service: Service,
        ledger: Ledger,
        *,
        has_root: bool = True,
    ) -> None:
        """`has_root`: items may go into the account's root folder."""
        self.world = world
        self.client = client
        self.service = service
        self.ledger = ledger
        self.has_root = has_root
        # Another account, which changes what is shared with it.
        self.colleague: Person | None = None
        self.done = 0
        self.holds: list[str] = []
        self.locks: list[str] = []
        self.policies = 0
        # Some retention policy deletes permanently at its end.
        self.disposes = False
        self.shares: list[str] = []
        # Items that are never deleted permanently.
        self.protected: set[int] = set()

    async def act(self, name: str, args: tuple[int, ...]) -> None:
        try:
            await getattr(self, f"do_{name}")(*args)
            self.done += 1
            self.world.note(f"{name} {args}: done")
        except (errors.CmsfsError, LookupError, httpx.HTTPError) as error:
            self.world.note(f"{name} {args}: {type(error).__name__}")

    def _pick(self, kind: int, which: int, *, status: int = 0) -> str:
        """Return the id of an item of this kind; `LookupError` if there is none."""
        if self.service.transport() is None:
            raise LookupError
        rows = self.service.store.read(
            "SELECT id FROM item WHERE kind = ? AND status = ? ORDER BY id", kind, status
        )
        return str(rows[which % len(rows)]["id"]) if rows else self._nothing()

    def _nothing(self) -> str:
        raise LookupError

    def _pick_folder(self, which: int) -> str:
        if self.service.transport() is None:
            raise LookupError
        rows = self.service.store.read("SELECT id FROM item WHERE kind = 0 AND status = 0 ORDER BY id")
        if not self.has_root and not rows:
            raise LookupError
        place = which % (len(rows) + 1) if self.has_root else 1 + which % len(rows)
        return str(rows[place - 1]["id"]) if place else "0"

    def _new_text(self) -> bytes:
        self.ledger.number += 1
        data = f"person {self.ledger.number}\n".encode() * (1 + self.ledger.number % 30)
        self.ledger.register(data)
        return data

    async def do_create(self, where: int, which: int) -> None:
        await self._create(self._pick_folder(where), NAMES[which % len(NAMES)])

    async def _create(self, folder: str, name: str) -> None:
        data = self._new_text()
        wish = uploads.UploadAttributes(name=name, parent=base.Reference(id=folder))
        await self.client.uploads.new_file(wish, BytesSource(data), sha1=sha1(data))
        self.ledger.wrote(data, over=ANY)

    async def do_edit(self, which: int) -> None:
        await self._edit(self._pick(1, which))

    async def _edit(self, item: str) -> None:
        data = self._new_text()
        await self.client.uploads.new_version(item, BytesSource(data), sha1=sha1(data))
        self.ledger.wrote(data, over=ANY)

    async def do_promote(self, which: int, past: int) -> None:
        """Make an old version current again."""
        item = self._pick(1, which)
        found = await self.client.versions.past(item)
        if not found:
            raise LookupError
        version = found[past % len(found)]
        # A promoted version may follow any other.
        if self.service.transport() is None:
            raise LookupError
        row = self.service.store.read("SELECT sha1 FROM version WHERE id = ?", int(version.id))
        if row:
            self.ledger.sources.setdefault(row[0]["sha1"], set()).add(ANY)
            self.ledger.promoted.add(row[0]["sha1"])
        await self.client.versions.promote(item, version.id)

    async def do_rename(self, which: int, name: int) -> None:
        await self.client.items.update("file", self._pick(1, which), name=NAMES[name % len(NAMES)])

    async def do_move(self, which: int, where: int) -> None:
        await self.client.items.update("file", self._pick(1, which), parent_id=self._pick_folder(where))

    async def do_folder(self, where: int, name: int) -> None:
        names = [path.rpartition("/")[2] for path in FOLDERS[1:]]
        await self.client.folders.create(names[name % len(names)], self._pick_folder(where))

    async def do_move_folder(self, which: int, where: int) -> None:
        await self.client.items.update("folder", self._pick(0, which), parent_id=self._pick_folder(where))

    async def do_delete(self, which: int) -> None:
        item = self._pick(1, which)
        self.ledger.thrown_away |= self._contents(item)
        await self.client.items.delete("file", item)
        self.ledger.thrown_away |= self._contents(item)

    async def do_delete_folder(self, which: int) -> None:
        await self._delete_folder(self._pick(0, which))

    async def _delete_folder(self, item: str) -> None:
        self.ledger.thrown_away |= self._contents(item)
        await self.client.items.delete("folder", item, recursive=True)
        self.ledger.thrown_away |= self._contents(item)

    def _contents(self, item: str) -> set[str]:
        """Return the contents of a file, or of all files in a folder."""
        if self.service.transport() is None:
            return set()
        return {row["sha1"] for row in self.service.store.read(_BELOW, int(item))}

    async def do_bury(self, which: int, where: int) -> None:
        """Edit a file, move it into a folder and delete that a moment later."""
        item, folder = self._pick(1, which), self._pick(0, where)
        await self.do_edit(which)
        await self.client.items.update("file", item, parent_id=folder)
        await trio.sleep(where % 7)
        await self._delete_folder(folder)

    async def do_retrieve(self, which: int, seconds: int) -> None:
        """Delete a folder and restore it later."""
        item = self._pick(0, which)
        await self._delete_folder(item)
        await trio.sleep(seconds % 40)
        await self._restore_folder(item)

    async def do_restore(self, which: int, kind: int) -> None:
        one = kind % 2
        item = self._pick(one, which, status=1)
        if one:
            await self.client.items.restore("file", item)
        else:
            await self._restore_folder(item)

    async def _restore_folder(self, item: str) -> None:
        self.world.restored_folders += 1
        await self.client.items.restore("folder", item)

    async def do_revive(self, which: int, how: int) -> None:
        """Restore a file that was deleted, and change it or let a colleague change it at once."""
        item = self._pick(1, which, status=1)
        await self.client.items.restore("file", item)
        if how % 3 == 0 or self.colleague is None:
            await self._edit(item)
            return
        with suppress(errors.ApiError):  # it may be shared already
            made = await self.client.collaborations.create("file", item, "editor", login=OTHER)
            self.shares.append(made.id)
        await self.colleague._edit(item)

    async def do_purge(self, which: int, kind: int) -> None:
        """Delete an item permanently from the trash, with all its versions."""
        one = kind % 2
        await self._purge(one, self._pick(one, which, status=1))

    async def do_empty_trash(self) -> None:
        """Delete everything in the trash permanently."""
        if self.service.transport() is None:
            raise LookupError
        for row in self.service.store.read("SELECT id, kind FROM item WHERE status = 1 AND trash = id"):
            if row["kind"] in (0, 1):
                await self._purge(row["kind"], str(row["id"]))

    async def _purge(self, kind: int, item: str) -> None:
        """What a program moved, and nobody deleted or replaced, is still somewhere else."""
        below = self.service.store.read("SELECT id FROM item WHERE id = ?1 OR trash = ?1", int(item))
        if self.protected & {row["id"] for row in below}:
            raise LookupError
        rows = self.service.store.read(
            "SELECT version.sha1, version.sha1 = item.sha1 AS is_current"
            " FROM version JOIN item ON item.id = version.file WHERE item.id = ?1 OR item.trash = ?1",
            int(item),
        )
        gone = {row["sha1"] for row in rows}
        current = {row["sha1"] for row in rows if row["is_current"]}
        self.ledger.purged += sorted(gone)
        self.ledger.replaced |= gone - (current & self.ledger.moved - self.ledger.thrown_away)
        await self.client.items.purge(("folder", "file")[kind], item)

    async def do_link(self, where: int, number: int) -> None:
        await self.client.web_links.create(
            f"https://example.com/{number}", self._pick_folder(where), name=f"link {number % 3}"
        )

    async def do_link_file(self, where: int, number: int) -> None:
        """Create a file under the name that a web link is shown under."""
        await self._create(self._pick_folder(where), f"link {number % 3}.url")

    async def do_drop_link_file(self, which: int, how: int) -> None:
        """Rename or delete such a file."""
        if self.service.transport() is None:
            raise LookupError
        rows = self.service.store.read(
            "SELECT id FROM item WHERE kind = 1 AND status = 0 AND name LIKE 'link %.url' ORDER BY id"
        )
        if not rows:
            raise LookupError
        item = str(rows[which % len(rows)]["id"])
        if how % 2:
            await self.client.items.update("file", item, name=NAMES[how % len(NAMES)])
            return
        self.ledger.thrown_away |= self._contents(item)
        await self.client.items.delete("file", item)

    async def do_share(self, which: int, role: int) -> None:
        """Share a folder with the other account."""
        made = await self.client.collaborations.create(
            "folder", self._pick(0, which), ROLES[role % len(ROLES)], login=OTHER
        )
        self.shares.append(made.id)

    async def do_rights(self, role: int) -> None:
        """Change the other account's role in a folder."""
        wish = collaborations.UpdateCollaboration(role=ROLES[role % len(ROLES)])
        await self.client.collaborations.update(self.shares[role % len(self.shares or [0])], wish)

    async def do_unshare(self) -> None:
        await self.client.collaborations.delete(self.shares[0])
        self.shares.pop(0)

    async def do_hold(self, which: int) -> None:
        """Put a file under legal hold."""
        item = self._pick(1, which)
        policy = await self.client.legal_holds.create(f"hold {len(self.holds)}")
        self.holds.append(policy.id)
        await self.client.legal_holds.assign(policy.id, "file", item)

    async def do_lock(self, which: int, minutes: int) -> None:
        """Lock a file for some minutes."""
        item = self._pick(1, which)
        ends = self.world.datetime_now(UTC) + timedelta(minutes=1 + minutes % 60)
        await self.client.locks.lock(item, expires_at=ends)
        self.locks.append(item)

    async def do_retain(self, which: int, how: int) -> None:
        """Assign a retention policy of some days to a folder or the enterprise; it may delete at its end."""
        target = retention.RetentionAssignTo(type="enterprise")
        if how % 2:
            target = retention.RetentionAssignTo(type="folder", id=self._pick(0, which))
        disposes = how % 5 == 0
        self.policies += 1
        policy = await self.client.retention.create(
            retention.NewRetentionPolicy(
                policy_name=f"policy {self.policies}",
                policy_type="finite",
                disposition_action="permanently_delete" if disposes else "remove_retention",
                retention_length=1 + how % 10,
            )
        )
        await self.client.retention.assign(policy.id, target)
        self.disposes = self.disposes or disposes

    async def do_release(self) -> None:
        """End all legal holds and locks, and make every collaborator an editor."""
        for share in self.shares:
            with suppress(errors.NotFound):
                await self.client.collaborations.update(
                    share, collaborations.UpdateCollaboration(role="editor")
                )
        while self.locks:
            with suppress(errors.NotFound):
                await self.client.locks.unlock(self.locks.pop())
        while self.holds:
            await self.client.legal_holds.release(self.holds[-1])
            self.holds.pop()
