"""Web links: create, get, change, delete, and restore from the trash.

They share a folder's namespace with files and folders and have no content.

Rule: a link is restored to its original folder; `parent` counts only if that is gone.
"""

from sqlite3 import Connection
from typing import Any

from starlette import responses

from cmsfs.models import wire_names
from cmsfs.models.content import items as models_items
from cmsfs.models.content import web_links
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import items, trash
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(web_links.NewWebLink)
    name = wish.name if wish.name is not None else default_name(wish.url)
    items.check_name(name)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        parent = calls.get_target(read, call.caller, wish.parent.id)
        items.check_free(read, parent["id"], name)
        new = items.New(ItemKind.WEB_LINK, name, url=wish.url, description=wish.description or "")
        row = items.insert(conn, parent, new, by=call.caller.id, now=call.store.now())
        return item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(row)

    return calls.answer(await call.store.write(txn))


def default_name(url: str) -> str:
    """Return the default name of a link: its URL, without characters that names cannot have."""
    name = (
        url.partition("://")[2].replace("/", " ").replace("\\", " ").strip()[: wire_names.MAX_NAME].rstrip()
    )
    return name or "link"


async def get(call: calls.Call) -> responses.Response:
    row = trash.get_active_or_trashed(call, ItemKind.WEB_LINK)
    if call.is_unchanged(row):
        return responses.Response(status_code=304)
    return calls.answer(
        item_serializer.ItemSerializer(call.store.read, call.fields, caller=call.caller).item(row)
    )


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(web_links.UpdateWebLink)

    def txn(conn: Connection) -> dict[str, Any]:
        given = wish.model_dump(include={"name", "parent", "description"}, exclude_none=True)
        change = models_items.UpdateItem(**given)
        if "shared_link" in wish.model_fields_set:
            change.shared_link = wish.shared_link
        if "collections" in wish.model_fields_set:
            change.collections = wish.collections
        more = {} if wish.url is None else {"url": wish.url}
        return items.apply(conn, call, ItemKind.WEB_LINK, change, **more)

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = calls.get_for_change(
            store.reader(conn), call, ItemKind.WEB_LINK, call.id, needed=ItemRight.MOVE
        )
        trash.move_to_trash(conn, row, by=call.caller.id, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def restore(call: calls.Call) -> responses.Response:
    return await trash.restore(ItemKind.WEB_LINK, call)


routes = [
    Operation(
        "POST /web_links",
        create,
        "Create a web link",
        models_items.WebLink,
        query=[operations.FIELDS],
        body=web_links.NewWebLink,
        errors=(404, 409),
    ),
    Operation(
        "GET /web_links/{id}",
        get,
        "Get a web link",
        models_items.WebLink,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK, operations.IF_NONE_MATCH],
    ),
    Operation(
        "PUT /web_links/{id}",
        update,
        "Change a web link",
        models_items.WebLink,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=web_links.UpdateWebLink,
        errors=(409,),
    ),
    Operation(
        "DELETE /web_links/{id}",
        delete,
        "Put a web link in the trash",
        status=204,
        headers=[operations.IF_MATCH],
    ),
    Operation(
        "POST /web_links/{id}",
        restore,
        "Restore a web link",
        models_items.WebLink,
        status=201,
        query=[operations.FIELDS],
        body=web_links.RestoreWebLink,
        errors=(409,),
    ),
]
