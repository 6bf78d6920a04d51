"""Programs on a drive: each `do_` method is what some application does."""

import contextlib
import os

import trio

from cmsfs import errors
from tests.simulation.holding import Holding
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import ANY, sha1
from tests.simulation.promises import FOLDERS, NAMES, PATHS


class Programs(Holding):
    """All programs of one machine; they run one at a time."""

    # ---- acts on files ----

    async def do_write(self, kernel: Kernel, where: int, size: int) -> None:
        """`cat > path`, but the old contents are read first through the same handle."""
        path, data = self.path(where), self._new_text(size)
        try:
            file = await kernel.open(path, os.O_RDWR)
        except FileNotFoundError:
            await self._create(kernel, path, data)
            return
        before = await self._read_opened(kernel, file, path)
        self.ledger.record_truncated(b"", before)
        self.ledger.record_derived(data, before)
        self._mark_at_risk(before)
        try:
            await kernel.truncate(file, 0)
            self._update_models(file, before, b"")
            self._record_replaced(path, before)
            await kernel.write(file, 0, data)
            self._update_models(file, before, data)
        finally:
            await kernel.close(file)
        self._record_write(path, data, sha1(before))

    async def _create(self, kernel: Kernel, path: str, data: bytes) -> None:
        half = len(data) // 2
        for state in (data[:half], data):
            # It may become a version of a file that was just deleted here, also if the process is killed.
            self.ledger.may_follow_any(state)
        file = await kernel.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            await kernel.write(file, 0, data[:half])
            await kernel.write(file, half, data[half:])
        finally:
            await kernel.close(file)
        self._record_write(path, data, ANY)

    async def do_patch(self, kernel: Kernel, where: int, at: int, size: int) -> None:
        """Write in the middle of a file, or past its end."""
        await self._change(kernel, self.path(where), at, self._new_text(size % 9))

    async def do_append(self, kernel: Kernel, where: int, size: int) -> None:
        """Append to a file."""
        await self._change(kernel, self.path(where), None, self._new_text(size % 9))

    async def do_reopen(self, kernel: Kernel, where: int, size: int) -> None:
        """Read a file, and append to it a moment later through another handle."""
        await self._read_file(kernel, self.path(where))
        await trio.sleep(1 + size % 5)
        await self._change(kernel, self.path(where), None, self._new_text(size % 9))

    async def _change(self, kernel: Kernel, path: str, at: int | None, data: bytes) -> None:
        file = await kernel.open(path, os.O_RDWR)
        before = await self._read_opened(kernel, file, path)
        place = len(before) if at is None else at % (len(before) + 50)
        after = before[:place].ljust(place, b"\0") + data + before[place + len(data) :]
        self.ledger.record_derived(after, before)
        self._mark_at_risk(before)
        try:
            await kernel.write(file, place, data)
            self._update_models(file, before, after)
            self._record_replaced(path, before)
            found = await kernel.read(file)
        finally:
            await kernel.close(file)
        after = self._expect(path, found, after)
        self._record_write(path, after, sha1(before))

    async def do_log(self, kernel: Kernel, where: int, size: int) -> None:
        """`>> path`, twice through one `O_APPEND` handle: each write goes to the end at that time."""
        path = self.path(where)
        file = await kernel.open(path, os.O_RDWR | os.O_APPEND)
        before = await self._read_opened(kernel, file, path)
        self._mark_at_risk(before)
        after = before
        try:
            for more in (self._new_text(size % 9), self._new_text(size % 7)):
                self.ledger.record_derived(after + more, after)
                # On a full disk the write fails, and the handle still shows the old contents.
                await kernel.write(file, 0, more)
                self._update_models(file, after, after + more)
                after += more
            self._record_replaced(path, before)
            found = await kernel.read(file)
        finally:
            await kernel.close(file)
        after = self._expect(path, found, after)
        self._record_write(path, after, sha1(before))

    def _expect(self, path: str, found: bytes, expected: bytes) -> bytes:
        """Return what the file has by the program's own reading."""
        if found != expected and self._may_be_unverified(len(expected)):
            self.ledger.record_derived(found, expected)
            return found
        if found != expected:
            self.wrong.append(
                f"{self.machine.name}: {path} shows {self.ledger.label(found)} to whoever wrote"
                f" {self.ledger.label(expected)}"
            )
        return expected

    async def do_truncate(self, kernel: Kernel, where: int, size: int) -> None:
        """`truncate -s` on a file that was read before."""
        path = self.path(where)
        file = await kernel.open(path, os.O_RDWR)
        before = await self._read_opened(kernel, file, path)
        after = before[: size % 80].ljust(size % 80, b"\0")
        # Also if the process is killed before it can answer.
        self.ledger.record_truncated(after, before)
        self._mark_at_risk(before)
        try:
            await kernel.truncate(file, len(after))
            self._update_models(file, before, after)
            self._record_replaced(path, before)
        finally:
            await kernel.close(file)
        self._record_write(path, after, sha1(before))

    async def do_regrow(self, kernel: Kernel, where: int, size: int) -> None:
        """Truncate a file and write past its new end before closing it: the gap must read as zeros."""
        path, more = self.path(where), self._new_text(size % 9)
        file = await kernel.open(path, os.O_RDWR)
        before = await self._read_opened(kernel, file, path)
        left = before[: size % (len(before) + 1)]
        after = left + bytes(40) + more
        self.ledger.record_truncated(left, before)
        self.ledger.record_derived(after, left)
        self._mark_at_risk(before)
        try:
            await kernel.truncate(file, len(left))
            self._update_models(file, before, left)
            self._record_replaced(path, before)
            await kernel.write(file, len(left) + 40, more)
            self._update_models(file, left, after)
            found = await kernel.read(file)
        finally:
            await kernel.close(file)
        after = self._expect(path, found, after)
        self._record_write(path, after, sha1(before))

    async def do_save(self, kernel: Kernel, where: int, size: int) -> None:
        """Save through a temporary file and a rename over it; its name is local or would be uploaded."""
        path = self.path(where)
        beside = path.rpartition("/")[0]
        name = f".goutputstream-{self.ledger.number}" if size % 2 else f"new {self.ledger.number}"
        temporary = f"{beside}/{name}".lstrip("/")
        data = self._new_text(size)
        before = await self._read_file(kernel, path) if await kernel.exists(path) else None
        await self._create(kernel, temporary, data)
        await self._rename_over(kernel, temporary, path, before)

    async def _rename_over(
        self, kernel: Kernel, path: str, target: str, before: bytes | None, *, moved: bytes = b""
    ) -> None:
        if before is not None:
            # Bytes that arrive between this read and the rename are not counted as seen.
            before = await self._read_file(kernel, target) if await kernel.exists(target) else None
            await self._abandon_handles(kernel, target)
            self._mark_at_risk(before or b"")
        await kernel.rename(path, target)
        self._note_thrown_away(target)
        if before is not None:
            self._record_replaced(target, before)
            self.ledger.record_moved_over(moved, before)

    async def _rename_aside(self, kernel: Kernel, path: str) -> str:
        """Rename a file as if to a backup of it, which may be there; return the new name."""
        name = f"{path}.{self.ledger.number}"
        before = await self._read_file(kernel, name) if await kernel.exists(name) else None
        await self._rename_over(kernel, path, name, before)
        return name

    async def do_backup_save(self, kernel: Kernel, where: int, size: int) -> None:
        """Rename the file to a backup, create it again, remove the backup."""
        path, data = self.path(where), self._new_text(size)
        await self._read_file(kernel, path)
        backup = f"{path}~"
        if await kernel.exists(backup):
            await self._remove_file(kernel, backup)
        await kernel.rename(path, backup)
        await self._create(kernel, path, data)
        await self._remove_file(kernel, backup)

    async def do_rename(self, kernel: Kernel, where: int, to: int) -> None:
        path, target = self.path(where), self.path(to)
        moved = await self._read_file(kernel, path)
        before = await self._read_file(kernel, target) if await kernel.exists(target) else None
        self.ledger.record_moved(moved)
        if path == target:
            await kernel.rename(path, target)
            return
        await self._rename_over(kernel, path, target, before, moved=moved)

    async def do_regret(self, kernel: Kernel, where: int, seconds: int) -> None:
        """Rename a file, and rename it back some seconds later if its name is still free."""
        path = self.path(where)
        moved = await self._read_file(kernel, path)
        self.ledger.record_moved(moved)
        name = await self._rename_aside(kernel, path)
        await trio.sleep(seconds % 8)
        if not await kernel.exists(path):
            await kernel.rename(name, path)

    async def do_move_cold(self, kernel: Kernel, where: int, to: int) -> None:
        """`mv` over another file, both read before, after the cached bytes were freed."""
        path, target = self.path(where), self.path(to)
        if path == target:
            return
        moved = await self._read_file(kernel, path)
        before = await self._read_file(kernel, target) if await kernel.exists(target) else None
        with trio.move_on_after(30), contextlib.suppress(errors.CmsfsError):
            await self.machine.agents.free(f"/{path}", unpin=True)
        self.ledger.record_moved(moved)
        await self._rename_over(kernel, path, target, before, moved=moved)

    async def do_cold_backup(self, kernel: Kernel, where: int, size: int) -> None:
        """Rename a file to a backup after its cached bytes were freed, create it anew and remove it; the
        backup stays, and only the removed item's history has its bytes."""
        path, data = self.path(where), self._new_text(size)
        moved = await self._read_file(kernel, path)
        with trio.move_on_after(30), contextlib.suppress(errors.CmsfsError):
            await self.machine.agents.free(f"/{path}", unpin=True)
        self.ledger.record_moved(moved)
        await self._rename_aside(kernel, path)
        await self._create(kernel, path, data)
        self._mark_at_risk(data)
        await self._unlink(kernel, path, data)
        self._record_replaced(path, data)

    async def do_exchange(self, kernel: Kernel, where: int, to: int) -> None:
        """`renameat2(RENAME_EXCHANGE)`: the files swap bytes, unless a remote change arrives, or the
        kernel still has a name from before one."""
        path, target = self.path(where), self.path(to)
        applied = self.machine.agents.remote_updates.applied
        await trio.sleep(0.01)
        is_current = not kernel.invalidating
        before = []
        for one in (path, target):
            before.append(data := await self._read_file(kernel, one))
            self.ledger.record_moved(data)
        await kernel.rename(path, target, 2)
        for one, expected in ((path, before[1]), (target, before[0])):
            found = await self._read_file(kernel, one) if await kernel.exists(one) else b"(nothing)"
            is_alone = self.machine.agents.remote_updates.applied == applied
            if is_alone and is_current and path != target:
                self._expect(one, found, expected)

    async def do_case(self, kernel: Kernel, where: int) -> None:
        """Change the case of the name, and back the next time."""
        path = self.path(where)
        folder, _, name = path.rpartition("/")
        other = f"{folder}/{name.upper()}".lstrip("/")
        if await kernel.exists(path):
            path, other = other, path
        await kernel.rename(other, path)

    async def do_unlink(self, kernel: Kernel, where: int) -> None:
        await self._remove_file(kernel, self.path(where))

    async def do_read(self, kernel: Kernel, where: int) -> None:
        await self._read_file(kernel, self.path(where))

    async def do_stat(self, kernel: Kernel) -> None:
        """`ls -l`: read attributes, but no contents."""
        for path in map(self.path, range(PATHS)):
            await kernel.exists(path)

    async def do_chmod(self, kernel: Kernel, where: int, may_run: int) -> None:
        await kernel.chmod(self.path(where), 0o755 if may_run % 3 else 0o644)

    async def do_past(self, kernel: Kernel, where: int) -> None:
        """Read all earlier versions of a file, which somebody must have written."""
        folder = f"{self.path(where)}@versions"
        for name in await kernel.listdir(folder):
            await self._read_file(kernel, f"{folder}/{name}")

    async def do_search(self, kernel: Kernel, which: int) -> None:
        """List a search folder, and stat what it contains."""
        for name in await kernel.listdir(f".search/{NAMES[which % len(NAMES)]}"):
            await kernel.stat(f".search/{NAMES[which % len(NAMES)]}/{name}")

    # ---- acts on folders ----

    async def do_mkdir(self, kernel: Kernel, where: int) -> None:
        await kernel.mkdir(self.folder(where))

    async def do_rmdir(self, kernel: Kernel, where: int) -> None:
        await kernel.rmdir(self.folder(where))

    async def do_mvdir(self, kernel: Kernel, where: int, to: int) -> None:
        await kernel.rename(self.folder(where), self.folder(to))

    async def do_unpack(self, kernel: Kernel, where: int, size: int) -> None:
        """Create and fill a folder under a temporary name, then rename it, to its own name if free."""
        folder = self.folder(where)
        beside = f"{folder} {self.ledger.number}"
        await kernel.mkdir(beside)
        for number in (1, 2):
            await self._create(kernel, f"{beside}/{NAMES[number]}", self._new_text(size + number))
        await kernel.rename(beside, f"{folder} {size % 3}" if await kernel.exists(folder) else folder)

    async def do_rebuild(self, kernel: Kernel, where: int, size: int) -> None:
        """Create a folder if it is gone, and what is missing in it."""
        folder = self.folder(where)
        if not await kernel.exists(folder):
            await kernel.mkdir(folder)
        for number in (0, 1):
            if not await kernel.exists(f"{folder}/{NAMES[number]}"):
                await self._create(kernel, f"{folder}/{NAMES[number]}", self._new_text(size + number))

    async def do_move_in(self, kernel: Kernel, which: int, where: int) -> None:
        """Move a file from the drive's root into a folder, if that has none of this name."""
        files: list[str] = []
        folders: list[str] = []
        for name in await kernel.listdir(self.machine.shared_prefix.rstrip("/")):
            path = f"{self.machine.shared_prefix}{name}"
            (folders if await kernel.is_folder(path) else files).append(path)
        if not files or not folders:
            return
        path = sorted(files)[which % len(files)]
        target = f"{sorted(folders)[where % len(folders)]}/{path.rpartition('/')[2]}"
        if path.endswith(".url") or await kernel.exists(target):
            return
        moved = await self._read_file(kernel, path)
        self.ledger.record_moved(moved)
        await self._rename_over(kernel, path, target, None)

    async def do_enter(self, kernel: Kernel, where: int) -> None:
        """Work in a folder: `cd`."""
        folder = await kernel.enter(self.folder(where))
        await self.do_leave(kernel)
        self.cwd = folder

    async def do_leave(self, kernel: Kernel) -> None:
        if self.cwd is not None:
            kernel.leave(self.cwd)
            self.cwd = None

    async def do_rmtree(self, kernel: Kernel, where: int) -> None:
        """`rm -r`, which reads each file before it removes it."""
        await self._remove_all(kernel, self.folder(where))

    async def _remove_all(self, kernel: Kernel, path: str) -> None:
        for name in await kernel.listdir(path):
            below = f"{path}/{name}"
            if await kernel.is_folder(below):
                await self._remove_all(kernel, below)
                continue
            await self._remove_file(kernel, below)
        await kernel.rmdir(path)

    async def do_list(self, kernel: Kernel, where: int) -> None:
        await kernel.listdir(FOLDERS[where % len(FOLDERS)])

    async def do_undelete(self, kernel: Kernel, which: int, to: int) -> None:
        """Move an item out of the trash to an unused path."""
        names = await kernel.listdir(".trash")
        if not names or await kernel.exists(self.path(to)):
            return
        name = sorted(names)[which % len(names)]
        with self.ledger.undeleting(self.path(to).rpartition("/")[2]):
            await kernel.rename(f".trash/{name}", self.path(to))

    async def do_xattr(self, kernel: Kernel, where: int, value: int) -> None:
        """Set an extended attribute and read it back."""
        path, text = self.path(where), str(value).encode()
        await kernel.setxattr(path, "user.mark", text)
        if (found := await kernel.getxattr(path, "user.mark")) != text:
            self.wrong.append(f"{self.machine.name}: user.mark of {path} is {found!r} and not {text!r}")

    async def do_describe(self, kernel: Kernel, where: int, value: int) -> None:
        """Set the comment that file managers show."""
        await kernel.setxattr(self.path(where), "user.xdg.comment", f"comment {value}".encode())

    async def do_touch(self, kernel: Kernel, where: int, days: int) -> None:
        """`touch -d`."""
        moment = int(self.world.now()) - days * 86_400
        await kernel.utime(self.path(where), moment * 10**9)
