"""The API groups of a client, each imported on first use.

A command makes one kind of request and a person waits for it: importing all API groups with their models
would be half of the client's import time.  A drive imports the rest after its start (`load_all`), when nobody
waits.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from cmsfs.client.transport.wire import Wire

if TYPE_CHECKING:
    from cmsfs.client.content.events import EventsApi
    from cmsfs.client.content.favorites import FavoritesApi
    from cmsfs.client.content.files import FilesApi
    from cmsfs.client.content.folder_locks import FolderLocksApi
    from cmsfs.client.content.folders import FoldersApi
    from cmsfs.client.content.items import ItemsApi
    from cmsfs.client.content.locks import LocksApi
    from cmsfs.client.content.metadata import MetadataApi
    from cmsfs.client.content.representations import RepresentationsApi
    from cmsfs.client.content.search import SearchApi
    from cmsfs.client.content.shared_links import SharedLinksApi
    from cmsfs.client.content.trash import TrashApi
    from cmsfs.client.content.upload_sessions import UploadSessionsApi
    from cmsfs.client.content.uploads import UploadsApi
    from cmsfs.client.content.versions import VersionsApi
    from cmsfs.client.content.web_links import WebLinksApi
    from cmsfs.client.enterprise.collaborations import CollaborationsApi
    from cmsfs.client.enterprise.exemptions import ExemptionsApi
    from cmsfs.client.enterprise.legal_holds import LegalHoldsApi
    from cmsfs.client.enterprise.retention import RetentionApi
    from cmsfs.client.enterprise.tokens import TokensApi
    from cmsfs.client.enterprise.users import UsersApi

# The package of each API group, and the fields of `ServiceEndpoints` that its constructor takes.
_BASE = ("base_url",)
_PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            *("events", "favorites", "files", "folder_locks", "folders", "items", "locks", "metadata"),
            *("representations", "search", "shared_links", "trash", "versions", "web_links"),
        ),
        ("content", _BASE),
    ),
    "upload_sessions": ("content", ("upload_url",)),
    "uploads": ("content", ("upload_url", "base_url")),
    **dict.fromkeys(
        ("collaborations", "exemptions", "legal_holds", "retention", "users"), ("enterprise", _BASE)
    ),
    "tokens": ("enterprise", ("auth_url",)),
}


class Addresses(Protocol):
    """The base URLs of a service."""

    @property
    def base_url(self) -> str: ...
    @property
    def upload_url(self) -> str: ...
    @property
    def auth_url(self) -> str: ...


class Capabilities:
    """The API groups of a service, by subject."""

    events: "EventsApi"
    favorites: "FavoritesApi"
    files: "FilesApi"
    folder_locks: "FolderLocksApi"
    folders: "FoldersApi"
    items: "ItemsApi"
    locks: "LocksApi"
    metadata: "MetadataApi"
    representations: "RepresentationsApi"
    search: "SearchApi"
    shared_links: "SharedLinksApi"
    trash: "TrashApi"
    upload_sessions: "UploadSessionsApi"
    uploads: "UploadsApi"
    versions: "VersionsApi"
    web_links: "WebLinksApi"
    collaborations: "CollaborationsApi"
    exemptions: "ExemptionsApi"
    legal_holds: "LegalHoldsApi"
    retention: "RetentionApi"
    tokens: "TokensApi"
    users: "UsersApi"

    def __init__(self, wire: Wire, addresses: Addresses) -> None:
        self.wire = wire
        self._addresses = addresses

    def __getattr__(self, name: str) -> Any:
        if (place := _PLACES.get(name)) is None:
            raise AttributeError(name)
        addresses = [getattr(self._addresses, one) for one in place[1]]
        made = _class(name)(self.wire, *addresses)
        setattr(self, name, made)
        return made


def _class(name: str) -> Any:
    module = importlib.import_module(f"cmsfs.client.{_PLACES[name][0]}.{name}")
    return getattr(module, f"{name.title().replace('_', '')}Api")


def load_all() -> None:
    """Import all API groups now."""
    for name in _PLACES:
        _class(name)
