"""A client with a downscoped token for a restricted drive: one folder, read-only, until a time, or a link's.

The whole drive gets the account's client; a narrowed one a client whose token the service itself has cut
down (`auth.connect.open_narrowed`).  The folder's path is looked up once, by the account's own rights; from
then on the tree knows it by its id, whatever it is called and wherever it is moved.

Rule: nothing in the daemon decides what a narrowed drive may do; the token does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cmsfs import config
from cmsfs.auth import bearer, connect, link_file
from cmsfs.auth.deadline import Deadline
from cmsfs.auth.endpoints import endpoints_of
from cmsfs.client import lone_file, remote_paths, session
from cmsfs.client.transport import rate_gate
from cmsfs.models import wire_names
from cmsfs.replica import kv_store, tree
from cmsfs.sqlite import Database


@asynccontextmanager
async def open_service(
    settings: config.Settings,
    db: Database,
    *,
    sample: bool,
    counters: session.Counters,
    pace: rate_gate.RateGate,
    deadline: Deadline,
) -> AsyncIterator[session.Client]:
    """The client of the drive.  Raises `UserError` for a folder that is none, and what a backend raises."""
    flow = connect.flow_of(settings)

    def owner() -> str | None:
        return kv_store.get(db, kv_store.OWNER)

    if not settings.is_narrowed:
        whole = connect.open_backend(
            settings, sample=sample, owner=owner, counters=counters, pace=pace, flow=flow
        )
        async with whole as client:
            yield client
        return

    async def find_root(way: connect.ServiceAccess) -> str:
        return await _find_root(settings, db, way)

    async with connect.open_narrowed(
        settings,
        find_root=find_root,
        deadline=deadline,
        sample=sample,
        owner=owner,
        counters=counters,
        pace=pace,
        flow=flow,
    ) as client:
        yield _of_link(settings, client) if settings.is_link else client


def _of_link(settings: config.Settings, client: session.Client) -> session.Client:
    """The client of a drive by a link: a link to a file shows no folder that the drive could begin at."""
    shown = link_file.read(settings.link_file)
    if shown.type == "folder":
        return client
    endpoints = endpoints_of(settings)
    return session.Client(lone_file.LoneFileWire(client.wire, endpoints.base_url, shown.id), endpoints)


async def _find_root(settings: config.Settings, db: Database, way: connect.ServiceAccess) -> str:
    known = tree.root_id(db)
    if settings.is_link:
        shown = link_file.read(settings.link_file)
        if shown.type == "folder" and shown.id != known:
            await db.write(lambda conn: tree.set_root(conn, shown.id), durable=True)
        return shown.id
    if known != wire_names.ROOT_ID or not settings.folder.strip("/"):
        return known
    auth = bearer.BearerAuth(way.fetch)
    async with session.open_client(
        way.endpoints, auth=auth, transport=way.transport, ca_file=way.ca_file
    ) as client:
        folder = await remote_paths.RemotePaths(client, settings).get_folder(settings.folder)
    await db.write(lambda conn: tree.set_root(conn, folder.id), durable=True)
    return folder.id
