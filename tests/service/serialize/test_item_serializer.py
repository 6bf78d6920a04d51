"""Every field of files, folders and web links, each with a value that the state of the service gives it."""

import hashlib
import re
from datetime import datetime

import pytest

from cmsfs.models.content import items, metadata
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

EARLY = "2020-01-02T03:04:05+00:00"
LATE = "2021-01-02T03:04:05+00:00"
MARKED = {"is_watermarked": True, "is_watermark_inherited": False, "is_watermarked_by_access_policy": False}
ROLES = {"editor", "viewer", "previewer", "uploader", "previewer uploader", "viewer uploader", "co-owner"}


class Text:
    """Equal to a text that matches."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.fullmatch(self._pattern, other) is not None

    def __repr__(self) -> str:
        return f"<{self._pattern}>"


class Moment:
    """Equal to a date-time with an offset."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and datetime.fromisoformat(other).tzinfo is not None


class Flags:
    """Equal to an object of these booleans."""

    def __init__(self, *names: str) -> None:
        self._names = set(names)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, dict) and other.keys() == self._names and set(other.values()) <= {True, False}
        )

    def __repr__(self) -> str:
        return f"<flags {self._names}>"


class Among:
    """Equal to a list of some of these."""

    def __init__(self, values: set[str]) -> None:
        self._values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and set(other) <= self._values


class Seconds:
    """Equal to a time that is to come."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and 0 < other <= 3600


class Page:
    """Equal to a page of items with these names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and [one["name"] for one in other["entries"]] == self._names


FOLDER_MAY = (
    *("can_delete", "can_download", "can_invite_collaborator", "can_rename", "can_set_share_access"),
    *("can_share", "can_upload", "can_apply_watermark"),
)
FILE_MAY = (
    *FOLDER_MAY,
    *("can_annotate", "can_comment", "can_preview", "can_view_annotations_all", "can_view_annotations_self"),
)
MINI = ("type", "id", "sequence_id", "etag", "sha1", "name", "file_version")
INSTANCE = {
    "$id": Text(r"[0-9a-f-]{36}"),
    "$parent": Text(r"(file|folder)_\d+"),
    "$scope": Text(r"enterprise_\d+|global"),
    "$template": Text(r"\w+|securityClassification-\w+"),
    "$type": Text(r".+"),
    "$version": 0,
    "$typeVersion": 0,
    "$canEdit": True,
}


@pytest.fixture
async def ann(api):
    me = await api.ask("GET", "/users/me")
    return {"type": "user", "id": me["id"], "name": "Ann Admin", "login": "ann@example.com"}


@pytest.fixture
async def classify(api):
    """`await classify(path)`: the item is secret, and somebody's."""
    option = {
        "key": "Secret",
        "staticConfig": {
            "classification": {"classificationDefinition": "Tell nobody", "colorHex": "#ff0000"}
        },
    }
    field = {
        "type": "enum",
        "key": metadata.CLASSIFICATION_FIELD,
        "displayName": "Classification",
        "options": [option],
    }
    body = {
        "scope": "enterprise",
        "templateKey": metadata.CLASSIFICATION,
        "displayName": "Classification",
        "fields": [field],
    }
    await api.ask("POST", "/metadata_templates/schema", json=body, expect=201)

    async def run(path):
        values = {metadata.CLASSIFICATION_FIELD: "Secret"}
        place = f"{path}/metadata/enterprise/{metadata.CLASSIFICATION}"
        await api.ask("POST", place, json=values, expect=201)
        await api.ask("POST", f"{path}/metadata/global/properties", json={"a": "b"}, expect=201)

    return run


async def read(api, kind, wire_id, expected):
    """The item with every field there is, compared one by one."""
    names = set(expected) - {"type", "metadata"} | {"metadata.global.properties"}
    # The table says something of each field that the service knows, and of no other.
    assert set(expected) - {"type", "item_collection"} == set(item_serializer._FIELDS[kind])
    path = f"/{KIND_NAMES[kind]}s/{wire_id}?fields={','.join(sorted(names))}"
    headers = {"x-rep-hints": "[extracted_text]"}
    found = await api.ask("GET", path, headers=headers)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert value == found[name], name
    # The models have them all, too.
    assert set(expected) <= set(type(items.parse_item(found)).model_fields)
    return found


def common(ann, name, parent):
    root = {"type": "folder", "id": "0", "sequence_id": None, "etag": None, "name": "All Files"}
    above = {"type": "folder", "id": parent["id"], "sequence_id": "0", "etag": "0", "name": parent["name"]}
    return {
        "id": Text(r"\d+"),
        "sequence_id": Text(r"[1-9]\d*"),
        "etag": Text(r"[1-9]\d*"),
        "name": name,
        "description": "What it is",
        "path_collection": {"total_count": 2, "entries": [root, above]},
        "created_at": Moment(),
        "modified_at": Moment(),
        "trashed_at": None,
        "purged_at": None,
        "created_by": ann,
        "modified_by": ann,
        "owned_by": ann,
        "parent": above,
        "item_status": "active",
        "collections": [],
    }


def shared(*, direct, downloads=0):
    return {
        "url": Text(r"http://service\.test/s/.+"),
        "download_url": Text(r"http://service\.test/shared/static/.+") if direct else None,
        "vanity_url": None,
        "vanity_name": None,
        "access": "open",
        "effective_access": "open",
        "effective_permission": "can_download",
        "is_password_enabled": False,
        "unshared_at": None,
        "download_count": downloads,
        "preview_count": 0,
        "permissions": {"can_preview": True, "can_download": True, "can_edit": False},
    }


def stored():
    return {
        "tags": ["red", "blue"],
        "metadata": {"global": {"properties": INSTANCE | {"a": "b"}}},
        "classification": {"name": "Secret", "definition": "Tell nobody", "color": "#ff0000"},
        "watermark_info": MARKED,
        "allowed_invitee_roles": Among(ROLES),
        "is_accessible_via_shared_link": True,
        "is_externally_owned": False,
        "has_collaborations": False,
        "is_associated_with_app_item": False,
    }


async def dress(api, path, classify, **more):
    """Give an item all that one can have."""
    body = {"description": "What it is", "tags": ["red", "blue"], "shared_link": {"access": "open"}}
    await api.ask("PUT", path, json=body | more)
    await api.ask("PUT", f"{path}/watermark", json={"watermark": {}}, expect=201)
    await classify(path)


async def test_every_field_of_a_file(api, ann, classify):
    parent = await api.folder("above")
    dates = {"content_created_at": EARLY, "content_modified_at": EARLY}
    file = await api.upload("Report.TXT", b"first", parent["id"], **dates)
    last = await api.version(file["id"], b"second words", content_modified_at=LATE)
    path = f"/files/{file['id']}"
    await dress(api, path, classify, lock={"access": "lock", "is_download_prevented": True})
    for message in ("one", "two"):
        body = {"message": message, "item": {"type": "file", "id": file["id"]}}
        await api.ask("POST", "/comments", json=body, expect=201)
    link = (await api.ask("GET", f"{path}?fields=shared_link"))["shared_link"]
    await api.ask("PUT", path, json={"lock": {"access": "lock"}})
    assert (await api.http.get(link["download_url"])).status_code == 200
    now = await api.ask("GET", path)
    expected = common(ann, "Report.TXT", parent) | stored()
    expected |= {
        "type": "file",
        "sha1": hashlib.sha1(b"second words", usedforsecurity=False).hexdigest(),
        "file_version": last["file_version"],
        "size": 12,
        "content_created_at": EARLY,
        "content_modified_at": LATE,
        "shared_link": shared(direct=True, downloads=1),
        "version_number": "2",
        "comment_count": 2,
        "permissions": Flags(*FILE_MAY),
        "lock": {
            "type": "lock",
            "id": Text(r"\d+"),
            "created_by": ann,
            "created_at": Moment(),
            "expired_at": None,
            "is_download_prevented": False,
            "app_type": None,
        },
        "extension": "txt",
        "is_package": False,
        "expiring_embed_link": {
            "access_token": Text(r"\S+"),
            "expires_in": Seconds(),
            "token_type": "bearer",
            "restricted_to": [{"scope": "item_preview", "object": {name: now[name] for name in MINI}}],
            "url": Text(r"http://service\.test/preview/expiring_embed/\d+\?token=\S+"),
        },
        "expires_at": None,
        "disposition_at": None,
        "representations": {
            "entries": [
                {
                    "representation": "extracted_text",
                    "properties": {},
                    "info": {"url": Text(r"http://service\.test/2\.0/internal_files/.*/extracted_text")},
                    "content": {"url_template": Text(r".*/extracted_text/content/\{\+asset_path\}")},
                    "status": {"state": "pending"},
                }
            ]
        },
        "uploader_display_name": "Ann Admin",
        "shared_link_permission_options": ["can_preview", "can_download", "can_edit"],
    }
    await read(api, ItemKind.FILE, file["id"], expected)


async def test_every_field_of_a_folder(api, ann, classify):
    parent = await api.folder("above")
    folder = await api.folder("inside", parent["id"])
    await api.upload("a", b"12345", folder["id"])
    await dress(api, f"/folders/{folder['id']}", classify, sync_state="partially_synced")
    expected = common(ann, "inside", parent) | stored()
    expected |= {
        "type": "folder",
        "size": 5,
        "content_created_at": Moment(),
        "content_modified_at": Moment(),
        "shared_link": shared(direct=False),
        "permissions": Flags(*FOLDER_MAY),
        "folder_upload_email": None,  # nothing here takes mail
        "sync_state": "partially_synced",
        "can_non_owners_invite": True,
        "can_non_owners_view_collaborators": True,
        "is_collaboration_restricted_to_enterprise": False,
        "allowed_shared_link_access_levels": ["open", "company", "collaborators"],
        "item_collection": Page(["a"]),
    }
    await read(api, ItemKind.FOLDER, folder["id"], expected)


async def test_every_field_of_a_web_link(api, ann):
    parent = await api.folder("above")
    link = await api.link("there", parent["id"], "https://example.com/there")
    body = {"description": "What it is", "shared_link": {}}
    await api.ask("PUT", f"/web_links/{link['id']}", json=body)
    expected = common(ann, "there", parent)
    expected |= {
        "type": "web_link",
        "url": "https://example.com/there",
        "shared_link": shared(direct=False),
        "permissions": Flags(*(name for name in FOLDER_MAY if name != "can_upload")),
    }
    names = ",".join(expected.keys() - {"type"})
    found = await api.ask("GET", f"/web_links/{link['id']}?fields={names}")
    assert set(expected) - {"type"} == set(item_serializer._FIELDS[ItemKind.WEB_LINK])
    for name, value in expected.items():
        assert value == found[name], name


async def test_trashed_item_shows_when_it_is_purged(api):
    file = await api.upload("a")
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    found = await api.ask("GET", f"/files/{file['id']}/trash")
    assert found["item_status"] == "trashed"
    gone, last = (datetime.fromisoformat(found[name]) for name in ("trashed_at", "purged_at"))
    assert (last - gone).days == 30


async def test_a_shared_folder_makes_what_is_below_accessible(api):
    folder = await api.folder("above")
    file = await api.upload("a", b"", folder["id"])
    path = f"/files/{file['id']}?fields=is_accessible_via_shared_link"
    assert (await api.ask("GET", path))["is_accessible_via_shared_link"] is False
    await api.ask("PUT", f"/folders/{folder['id']}", json={"shared_link": {}})
    assert (await api.ask("GET", path))["is_accessible_via_shared_link"] is True
    await api.ask("PUT", f"/folders/{folder['id']}", json={"shared_link": None})
    assert (await api.ask("GET", path))["is_accessible_via_shared_link"] is False


async def test_a_shared_link_counts_its_uses(api, uwe):
    file = await api.upload("a.txt", b"0123456789")
    link = (await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": {}}))["shared_link"]
    header = {"boxapi": f"shared_link={link['url']}"}
    await uwe.bytes(file["id"], headers=header)
    # Going on where another fetch broke off is none of its own; nor is the owner's.
    await uwe.bytes(file["id"], headers=header | {"range": "bytes=5-"})
    await api.bytes(file["id"])
    assert (await uwe.http.get(link["download_url"])).status_code == 200
    found = (await api.ask("GET", f"/files/{file['id']}"))["shared_link"]
    assert (found["download_count"], found["preview_count"]) == (2, 0)


@pytest.mark.parametrize("state", ["synced", "partially_synced", "not_synced"])
async def test_a_folder_is_marked_to_be_synchronised(api, state):
    body = {"name": "a", "parent": {"id": "0"}, "sync_state": state}
    folder = await api.ask("POST", "/folders?fields=sync_state", json=body, expect=201)
    assert folder["sync_state"] == state
    path = f"/folders/{folder['id']}?fields=sync_state"
    assert (await api.ask("PUT", path, json={"sync_state": "synced"}))["sync_state"] == "synced"
    again = await api.ask("PUT", path, json={"sync_state": "synced"})
    assert again["etag"] == ("0" if state == "synced" else "1")
    assert (await api.ask("PUT", path, json={"sync_state": "not_synced"}))["sync_state"] == "not_synced"
    await api.ask("PUT", path, json={"sync_state": "x"}, expect=400)


async def test_a_package_is_a_file_of_several(api):
    for name, expected in (("talk.key", True), ("talk.pptx", False)):
        file = await api.upload(name, b"x")
        assert (await api.ask("GET", f"/files/{file['id']}?fields=is_package"))["is_package"] is expected
