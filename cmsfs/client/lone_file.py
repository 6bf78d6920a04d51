"""Presents a single shared file as a drive: a synthetic root folder with the file as its only item.

A shared link may show one file without its folder, but a drive needs a root folder.  So requests for the root
are answered here, and responses about the file get this root as its parent.

Rule: only the file's place is rewritten; its permissions stay as the service reports them.
"""

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.transport.lazy import httpx
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Download, M, Wire
from cmsfs.models import base, wire_names

_ROOT = {"type": "folder", "id": wire_names.ROOT_ID, "name": ""}
_NO_PERMISSIONS = dict.fromkeys(
    (
        *("can_download", "can_upload", "can_rename", "can_delete", "can_share"),
        *("can_invite_collaborator", "can_set_share_access"),
    ),
    False,
)


class _AnyAnswer(pydantic.RootModel[Any]):
    """An unparsed JSON response."""

    model_config = base.DEFERRED
    root: Any


class LoneFileWire(Wire):
    """Forwards every request except those for the root, and rewrites the file's parent to the root."""

    def __init__(self, wire: Wire, base_url: str, file_id: str) -> None:  # no super(): `wire` has that state
        self.counters, self.session = wire.counters, wire.session
        self.make_ready = wire.make_ready
        self._wire = wire
        self._url = base_url
        self._root = f"{base_url}/folders/{wire_names.ROOT_ID}"
        self._file_id = file_id

    async def ask(self, shape: type[M], method: str, url: str, **how: Any) -> M:
        if method == "GET" and url == self._root:
            return _shaped(shape, {**_ROOT, "permissions": _NO_PERMISSIONS, "item_status": "active"})
        if method == "GET" and url == f"{self._root}/items":
            return _shaped(shape, await self._root_listing(how))
        if url == f"{self._url}/search":
            return _shaped(shape, await self._search_root(how))
        return _shaped(shape, await self._forward(method, url, how))

    async def ask_ready(self, shape: type[M], method: str, url: str, **how: Any) -> M | float:
        found = await self._wire.ask_ready(_AnyAnswer, method, url, **how)
        return found if isinstance(found, float) else _shaped(shape, self._with_root_as_parent(found.root))

    async def _root_listing(self, how: Mapping[str, Any]) -> Any:
        """Return the root's listing: the file as its only entry."""
        wanted = {key: value for key, value in (how.get("params") or {}).items() if key == "fields"}
        file = await self._forward("GET", f"{self._url}/files/{self._file_id}", {**how, "params": wanted})
        return {"entries": [file], "total_count": 1, "offset": 0, "limit": 1000, "next_marker": None}

    async def _search_root(self, how: Mapping[str, Any]) -> Any:
        """Return the search results within the root: with an account's token, a search finds other files
        too."""
        params = dict(how.get("params") or {})
        nothing = {"entries": [], "total_count": 0, "offset": 0, "limit": 1000}
        if params.get("trash_content") == "trashed_only" or params.get("offset", "0") != "0":
            return nothing
        if params.get("query") == EVERYTHING:
            return await self._root_listing(how)
        params.pop("ancestor_folder_ids", None)
        page = await self._forward("GET", f"{self._url}/search", {**how, "params": params})
        found = [one for one in page["entries"] if one.get("id") == self._file_id]
        return nothing | {"entries": found, "total_count": len(found)}

    async def _forward(self, method: str, url: str, how: Mapping[str, Any]) -> Any:
        return self._with_root_as_parent((await self._wire.ask(_AnyAnswer, method, url, **how)).root)

    def _with_root_as_parent(self, answer: Any) -> Any:
        """Return the response with the root as the file's parent."""
        if not isinstance(answer, dict):
            return answer
        if isinstance(answer.get("entries"), list):
            return answer | {"entries": [self._with_root_as_parent(one) for one in answer["entries"]]}
        if (answer.get("type"), answer.get("id")) != ("file", self._file_id):
            return answer
        path = {"total_count": 1, "entries": [_ROOT]}
        return answer | {"parent": _ROOT} | ({"path_collection": path} if "path_collection" in answer else {})

    async def tell(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> None:
        await self._wire.tell(method, url, headers=headers, body=body)

    async def token(self, shape: type[M], url: str, form: Mapping[str, str], *, repeat: Repeat) -> M:
        return await self._wire.token(shape, url, form, repeat=repeat)

    async def form(self, url: str, form: Mapping[str, str], *, repeat: Repeat) -> httpx.Response:
        return await self._wire.form(url, form, repeat=repeat)

    def stream(self, url: str, **how: Any) -> Download:
        return self._wire.stream(url, **how)


def _shaped(shape: type[M], answer: Any) -> M:
    return shape.model_validate_json(json.dumps(answer).encode())
