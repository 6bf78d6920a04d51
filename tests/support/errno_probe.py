"""Helpers for tests: an attribute's value or errno as a program sees it, and actions of other users."""

import errno
from collections.abc import Awaitable

from cmsfs.models.content import metadata
from cmsfs.service.access import scopes
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Drive, Remote

PREFIX = "user.cms."
URL = "http://service.test"


async def value(drive: Drive, path: str, name: str) -> str:
    """Return the value of an attribute, or the errno of reading it."""
    try:
        return (await drive.fs.getxattr(await drive.ino(path), PREFIX + name)).decode()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


async def attempt(call: Awaitable[object]) -> str:
    try:
        await call
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


async def told(drive: Drive, path: str, name: str, given: str | None) -> str:
    ino = await drive.ino(path)
    if given is None:
        return await attempt(drive.fs.removexattr(ino, PREFIX + name))
    return await attempt(drive.fs.setxattr(ino, PREFIX + name, given.encode()))


async def listed(drive: Drive, path: str) -> list[str]:
    return [name.removeprefix(PREFIX) for name in await drive.fs.listxattr(await drive.ino(path))]


async def may_administer(service: Store) -> None:
    """Give tokens the administration scopes too; what the account may do depends on its role."""
    every = " ".join(scopes.APPLICATION)
    await service.write(lambda conn: conn.execute("UPDATE app SET scopes = ?", (every,)))


async def make_project(other: Remote) -> metadata.Template:
    """Create a template with a field of each type."""
    option = metadata.Option
    wish = metadata.NewTemplate(
        scope="enterprise",
        template_key="project",
        display_name="Project",
        fields=[
            metadata.Field(type="string", key="lead", display_name="Lead"),
            metadata.Field(type="float", key="budget", display_name="Budget"),
            metadata.Field(type="date", key="due", display_name="Due"),
            metadata.Field(
                type="enum",
                key="phase",
                display_name="Phase",
                options=[option(key="plan"), option(key="build")],
            ),
            metadata.Field(
                type="multiSelect", key="at", display_name="At", options=[option(key="x"), option(key="y")]
            ),
        ],
    )
    return await other.client.metadata.create_template(wish)


async def share(ben: Remote, kind: str, item_id: str, role: str, user: int) -> str:
    """Give a user a role in one of Ben's items; return the collaboration's id."""
    # Tests have kinds and roles from tables of strings; the service judges them.
    made = await ben.client.collaborations.create(kind, item_id, role, user_id=str(user))  # type: ignore[arg-type]
    return str(made.id)


async def shared_file(drive: Drive, ben: Remote, name: str, role: str, user: int) -> str:
    """Share Ben's folder `s` with the file NAME, poll the drive, and return the file's id."""
    folder = await ben.folder("s")
    file_id = str(await ben.file(name, b"one", folder))
    await share(ben, "folder", folder, role, user)
    await drive.names()
    await drive.poll()
    await drive.names("s")
    return file_id
