"""What others share, under every name that is one's own, reserved or special: where it is, and what stays."""

import itertools
from contextlib import AsyncExitStack

import pytest

from cmsfs import config
from cmsfs.client import remote_paths
from cmsfs.replica.nodes import ROOT
from daemon.content.search import RemoteSearch
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import attempt, share
from tests.support.network import Network

SHELF = "Shared with me"

# Names that are one's own here (as a folder and as a file), that are the drive's own, and that mean something
# to programs that look into a root.
OWN = ("Personal", "note.md", "script.sh", "PERSONAL", "Shared with me")
RESERVED = (".trash", ".search", ".Trash", ".Trash-1000", ".TRASH-1000", "note.md@versions")
SPECIAL = (".git", ".envrc", ".directory", "autorun.inf", ".hidden", ".xdg-volume-info", "HEAD")
NAMES = (*OWN, *RESERVED, *SPECIAL, "harmless")

KINDS = ("folder", "file")
FOLDER_ROLES = (
    "editor",
    "viewer",
    "previewer",
    "uploader",
    "previewer uploader",
    "viewer uploader",
    "co-owner",
)
FILE_ROLES = ("editor", "viewer")


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


async def own(other: Remote) -> None:
    """What is in one's own root before anybody shares anything."""
    folder = await other.folder("Personal")
    await other.file("diary.txt", b"mine", folder)
    await other.file("note.md", b"my note")
    await other.file("script.sh", b"my script")


OWN_NAMES = ["Personal", "note.md", "script.sh"]


async def give(ben: Remote, kind: str, name: str, role: str, user: int, where: str = "0") -> str:
    made = await (ben.folder(name, where) if kind == "folder" else ben.file(name, b"theirs", where))
    await share(ben, kind, made, role, user)
    return str(made)


async def shown(drive: Drive, path: str = "") -> dict[str, str]:
    """What is in a folder and which item each is, and that looking a name up finds what lists show."""
    found: dict[str, str] = {}
    for name in await drive.names(path):
        ino = await drive.ino(f"{path}/{name}")
        found[name] = drive.node(ino).remote_id or ""
        through = await drive.agents.shown.lookup(await drive.ino(path), name)
        assert through.ino == ino, name
    return found


async def tree(drive: Drive) -> dict[str, dict[str, str]]:
    root = await shown(drive)
    shelves = [name for name in root if drive.node(await drive.ino(name)).is_shelf]
    return {"": root} | {name: await shown(drive, name) for name in shelves}


async def give_everything(ben: Remote, user: int) -> dict[str, str]:
    """Ben shares a folder and a file under every name, the roles in turn; the names by the ids."""
    roles = {"folder": itertools.cycle(FOLDER_ROLES), "file": itertools.cycle(FILE_ROLES)}
    found: dict[str, str] = {}
    for kind, name in itertools.product(KINDS, NAMES):
        above = await ben.folder(f"{kind} {len(found)}")
        found[await give(ben, kind, name, next(roles[kind]), user, above)] = name
    return found


def check_names(root: dict[str, str], theirs: dict[str, str]) -> None:
    """Nothing of others has a name that is one's own, the drive's or a program's."""
    for name, item in root.items():
        if item not in theirs:
            continue
        assert name not in OWN_NAMES
        assert not name.startswith("."), name
        assert not name.casefold().endswith("@versions"), name
        assert name.casefold() not in ("autorun.inf", "head"), name


@pytest.mark.parametrize("where", ["folder", "root"])
async def test_own_name_wins_on_all_drives(
    starting: Starting, ben: Remote, other: Remote, user: int, where: str
) -> None:
    await own(other)
    async with AsyncExitStack() as stack:

        async def start(account: str) -> Drive:
            return await stack.enter_async_context(starting(account=account, shared=where))

        running = await start("running")
        before = await shown(running)
        assert sorted(before) == OWN_NAMES
        theirs = await give_everything(ben, user)
        await running.poll()
        fresh = await start("fresh")
        first, second = await tree(running), await tree(fresh)
        assert first == second
        root = first[""]
        assert {name: root[name] for name in OWN_NAMES} == before
        check_names(root, theirs)
        together = {item for folder in first.values() for item in folder.values()}
        assert theirs.keys() <= together
        if where == "folder":
            assert sorted(root) == [*OWN_NAMES[:1], SHELF, *OWN_NAMES[1:]]
            check_names(first[SHELF] | root, theirs)
        for drive in (running, fresh):
            assert await drive.read("Personal/diary.txt") == b"mine"
            assert await drive.read("note.md") == b"my note"
            assert await drive.read("script.sh") == b"my script"


@pytest.mark.parametrize("where", ["folder", "root"])
async def test_later_shared_name_does_not_replace_own(
    starting: Starting, ben: Remote, other: Remote, user: int, where: str
) -> None:
    """A folder that was shared under a harmless name is renamed to one's own, and back."""
    await own(other)
    async with starting(shared=where) as running:
        await running.names()
        theirs = await give(ben, "folder", "harmless", "editor", user)
        await running.poll()
        for name in ("Personal", ".git", ".Trash-1000", "note.md", "harmless"):
            await ben.client.items.update("folder", theirs, name=name)
            await running.poll()
            async with starting(account=f"fresh {name}", shared=where) as fresh:
                assert await tree(running) == await tree(fresh)
            check_names((await tree(running))[""], {theirs: name})
            await running.write("Personal/diary.txt", b"still mine")
            await running.sync()
            assert await other.read("diary.txt") == b"still mine"
        place = f"{SHELF}/harmless" if where == "folder" else "harmless"
        assert running.node(await running.ino(place)).remote_id == theirs


async def test_unsent_item_keeps_its_name(starting: Starting, ben: Remote, user: int) -> None:
    async with starting(shared="root", settle_seconds=600) as drive:
        await drive.names()
        mine = await drive.mkdir("Personal")
        theirs = await give(ben, "folder", "Personal", "editor", user)
        await drive.poll()
        assert await drive.ino("Personal") == mine
        both = ["Personal", f"Personal (id {theirs})"]
        assert sorted(await drive.names()) == both
        await drive.sync()
        await drive.poll()
        assert await drive.ino("Personal") == mine
        assert sorted(await drive.names()) == both


async def test_ones_own_folder_of_that_name_comes_first(
    starting: Starting, ben: Remote, other: Remote, user: int
) -> None:
    async with starting() as drive:
        theirs = await give(ben, "folder", "Team", "editor", user)
        await drive.names()
        assert await shown(drive, SHELF) == {"Team": theirs}
        mine = await other.folder(SHELF)
        await drive.poll()
        assert drive.node(await drive.ino(SHELF)).remote_id == mine
        assert await shown(drive, f"{SHELF} (from others)") == {"Team": theirs}
        async with starting(account="fresh") as fresh:
            assert await tree(fresh) == await tree(drive)
        await other.client.items.delete("folder", mine)
        await drive.poll()
        assert await shown(drive, SHELF) == {"Team": theirs}
        assert await drive.names() == [SHELF]


async def test_first_of_equal_names_keeps_it(starting: Starting, ben: Remote, user: int) -> None:
    first = await ben.folder("Team", await ben.folder("a"))
    second = await ben.folder("team", await ben.folder("b"))
    async with starting() as drive:
        await drive.names()
        await share(ben, "folder", second, "editor", user)
        await drive.poll()
        assert await shown(drive, SHELF) == {"team": second}
        given = await share(ben, "folder", first, "editor", user)
        await drive.poll()
        both = {"Team": first, f"team (id {second})": second}
        assert await shown(drive, SHELF) == both
        async with starting(account="fresh") as fresh:
            assert await shown(fresh, SHELF) == both
        await ben.client.collaborations.delete(given)
        await drive.poll()
        assert await shown(drive, SHELF) == {"team": second}


async def test_a_name_with_an_addition_is_not_sent(starting: Starting, ben: Remote, user: int) -> None:
    first = await ben.folder("Team", await ben.folder("a"))
    second = await ben.folder("Team", await ben.folder("b"))
    for item in (first, second):
        await share(ben, "folder", item, "editor", user)
    async with starting() as drive:
        await drive.names(SHELF)
        await drive.rename(f"{SHELF}/Team (id {second})", f"{SHELF}/Other")
        await drive.rename(f"{SHELF}/Other", f"{SHELF}/Team (id {second})")
        await drive.sync()
        assert (await ben.client.items.get("folder", second)).name == "Team"


async def test_the_folder_is_there_while_something_is_shared(
    starting: Starting, ben: Remote, user: int
) -> None:
    async with starting() as drive:
        assert await drive.names() == []
        folder = await ben.folder("Team")
        for _ in range(2):
            given = await share(ben, "folder", folder, "editor", user)
            await drive.poll()
            assert await drive.names() == [SHELF]
            await ben.client.collaborations.delete(given)
            await drive.poll()
            assert await drive.names() == []


async def test_a_setting_that_changes_moves_what_is_shared(
    starting: Starting, ben: Remote, user: int
) -> None:
    theirs = await give(ben, "folder", "Team", "editor", user)
    for where, expected in (("folder", [SHELF]), ("root", ["Team"]), ("folder", [SHELF])):
        async with starting(shared=where) as drive:
            assert await drive.names() == expected
            place = "Team" if where == "root" else f"{SHELF}/Team"
            assert drive.node(await drive.ino(place)).remote_id == theirs


async def test_reserved_names_cannot_be_created(drive: Drive) -> None:
    for name in (*RESERVED, "x@versions"):
        assert (name, await attempt(drive.write(name, b"x"))) == (name, "EPERM")
    await drive.mkdir("d")
    for name in (".trash", ".Trash-1000"):
        assert (name, await attempt(drive.write(f"d/{name}", b"x"))) == (name, "ok")
    assert await attempt(drive.write("d/x@versions", b"x")) == "EPERM"
    await drive.sync()
    await drive.poll()
    assert await drive.names("d") == [".Trash-1000", ".trash"]


async def test_remote_reserved_names_get_a_suffix(starting: Starting, other: Remote) -> None:
    async with starting(trash="Bin") as drive:
        await drive.names()
        made = {
            name: await other.file(name, b"x")
            for name in (".trash", ".search", ".Trash-1000", "n@versions", "Bin")
        }
        await drive.poll()
        found = await shown(drive)
        assert sorted(found.values()) == sorted(made.values())
        assert not found.keys() & made.keys()
        assert all("#" in name for name in found)
        for name, item in found.items():
            await drive.write(name, b"changed")
            await drive.sync()
            assert drive.node(await drive.ino(name)).remote_id == item
        assert sorted(await other.paths()) == sorted(made)


async def test_one_is_told_who_shares_what(starting: Starting, ben: Remote, user: int) -> None:
    await give(ben, "folder", "Known", "editor", user)
    async with starting() as drive:
        await drive.names()
        assert drive.agents.sharing.news() == (0, "")
        await give(ben, "folder", "Team", "editor", user)
        await drive.poll()
        assert drive.agents.sharing.news() == (1, f"Ben Tester shares {SHELF}/Team.")
        await ben.client.items.update("folder", (await ben.find("Team")).id, name="Club")
        await drive.poll()
        assert drive.agents.sharing.news()[0] == 1
        assert drive.node(await drive.ino(f"{SHELF}/Club")).parent != ROOT


async def test_a_search_finds_it_where_it_is(
    starting: Starting, ben: Remote, other: Remote, user: int
) -> None:
    folder = await give(ben, "folder", "Team", "editor", user)
    await ben.file("lease.txt", b"theirs", await ben.folder("Papers", folder))
    await give(ben, "file", "lease.md", "viewer", user)
    await other.file("lease.odt", b"mine")
    for where, above in (("folder", f"{SHELF}/"), ("root", "")):
        async with starting(account=where, shared=where) as drive:
            agents = drive.agents
            expected = sorted([f"{above}Team/Papers/lease.txt", f"{above}lease.md", "lease.odt"])
            # Before anything is known, and afterwards.
            for _ in range(2):
                search = await RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health).begin(
                    "lease"
                )
                assert sorted(one.path for one in await search.more()) == expected
                await drive.names(f"{above}Team/Papers")


async def test_a_command_means_ones_own_too(ben: Remote, other: Remote, user: int) -> None:
    first = await give(ben, "folder", "Personal", "editor", user, await ben.folder("a"))
    theirs = await ben.file("diary.txt", b"theirs", first)
    team = await give(ben, "folder", "Team", "editor", user)
    mine = await other.folder("Personal")
    diary = await other.file("diary.txt", b"mine", mine)
    second = await give(ben, "folder", "personal", "editor", user, await ben.folder("b"))
    paths = remote_paths.RemotePaths(other.client, config.Settings())
    expected = {
        "/Personal": mine,
        "/Personal/diary.txt": diary,
        "/personal": mine,
        f"/Personal (id {first})": first,
        f"/{SHELF}/Personal/diary.txt": theirs,
        f"/{SHELF}/personal (id {second})": second,
        f"/{SHELF}/Team": team,
        "/Team": team,
    }
    assert {path: (await paths.get(path)).id for path in expected} == expected
    assert await paths.find(f"/{SHELF}/nothing") is None


@pytest.mark.parametrize("where", ["folder", "root"])
async def test_late_user_id_yields_same_names(
    starting: Starting,
    ben: Remote,
    other: Remote,
    user: int,
    network: Network,
    where: str,
) -> None:
    await own(other)
    for name in ("Personal", ".git", ".Trash-1000", "note.md"):
        await give(ben, "folder", name, "editor", user)
    async with starting(account="in time", shared=where) as drive:
        expected = await tree(drive)
    network.is_down = True
    async with starting(account="late", shared=where) as drive:
        network.is_down = False
        await drive.agents.health.reachable()
        await drive.agents.hydrator.listing(ROOT)
        await drive.agents.account.refresh()
        assert await tree(drive) == expected
        assert await drive.read("Personal/diary.txt") == b"mine"


@pytest.mark.parametrize("way", ["removed here", "renamed here", "removed elsewhere"])
async def test_root_name_is_stable_until_remount(
    starting: Starting, ben: Remote, other: Remote, user: int, way: str
) -> None:
    mine = await other.file("note.md", b"mine")
    theirs = await give(ben, "file", "note.md", "editor", user)
    aside = f"note (id {theirs}).md"
    async with starting(shared="root") as drive, starting(account="second", shared="root") as second:
        for one in (drive, second):
            assert await one.names() == [aside, "note.md"]
        if way == "removed here":
            await drive.unlink("note.md")
        elif way == "renamed here":
            await drive.rename("note.md", "old.md")
        else:
            await other.client.items.delete("file", mine)
        await drive.sync()
        left = [*([aside]), *(["old.md"] if way == "renamed here" else [])]
        # A change of theirs and a look at everything bring it no nearer.
        await ben.write(theirs, b"theirs, again")
        for one in (drive, second):
            await one.poll()
            await one.agents.poll(full=True)
            assert await one.names() == left
        await drive.write("note.md", b"mine, made anew")
        await drive.sync()
        assert await ben.read("note.md") == b"theirs, again"
        await drive.unlink("note.md")
        await drive.sync()
    async with AsyncExitStack() as stack:
        for account in ("default", "second", "fresh"):
            one = await stack.enter_async_context(starting(account=account, shared="root"))
            assert await one.names() == ["note.md", *left[1:]], account
            assert one.node(await one.ino("note.md")).remote_id == theirs
