"""Roles and operations: who may do what with an item of somebody else, as one table.

Each line is a request, what it answers to who may make it, and who may.  Whoever sees the item and may not
is refused with 403, who does not see it with 404.
"""

import json
from typing import NamedTuple

import pytest

from cmsfs.service.access import roles
from cmsfs.service.storage.kinds import ItemKind
from tests.support import sharing

ROLES = {
    "O": "owner",
    "C": "co-owner",
    "E": "editor",
    "W": "viewer uploader",
    "Q": "previewer uploader",
    "V": "viewer",
    "P": "previewer",
    "U": "uploader",
    "-": "nobody",
}


class Op(NamedTuple):
    """What is asked of a folder {shared}, and of things in it that are made anew for each line."""

    name: str
    method: str
    path: str
    status: int
    who: str
    body: object = None
    refused: int = 403


TEXT = {"content-type": "application/json-patch+json"}
HERE = {"parent": {"id": "{shared}"}}
OWN = {"parent": {"id": "0"}}
UPLOADS = "http://service.test/api/2.0"
SESSION = {"folder_id": "{shared}", "file_size": 30_000_000, "file_name": "big"}

TABLE = [
    # What is there.
    Op("see a folder", "GET", "/folders/{shared}", 200, "OCEWQVPU"),
    Op("list a folder", "GET", "/folders/{shared}/items", 200, "OCEWQVPU"),
    Op("see a folder below", "GET", "/folders/{folder}", 200, "OCEWQVPU"),
    Op("see a file", "GET", "/files/{file}", 200, "OCEWQVPU"),
    Op("see a web link", "GET", "/web_links/{link}", 200, "OCEWQVPU"),
    Op("see versions", "GET", "/files/{file}/versions", 200, "OCEWQVPU"),
    Op("search", "GET", "/search?query=x&ancestor_folder_ids={shared}", 200, "OCEWQVPU"),
    Op("download", "GET", "/files/{file}/content", 200, "OCEWV"),
    # Something new.
    Op("make a folder", "POST", "/folders", 201, "OCEWQU", {"name": "new folder"} | HERE),
    Op("make a link", "POST", "/web_links", 200, "OCEWQU", {"name": "new link", "url": "https://x.y"} | HERE),
    Op("ask to upload", "OPTIONS", "/files/content", 200, "OCEWQU", {"name": "new", "size": 1} | HERE),
    Op("upload", "UPLOAD", "/files/content", 201, "OCEWQU", {"name": "new"} | HERE),
    Op("upload in parts", "POST", f"{UPLOADS}/files/upload_sessions", 201, "OCEWQU", SESSION),
    # Another content.
    Op("ask for a version", "OPTIONS", "/files/{file}/content", 200, "OCEW", {"size": 1}),
    Op("upload a version", "UPLOAD", "/files/{file}/content", 200, "OCEW", {}),
    Op("rename by a version", "UPLOAD", "/files/{file}/content", 200, "OCE", {"name": "other"}),
    Op(
        *("a version in parts", "POST", UPLOADS + "/files/{file}/upload_sessions", 201, "OCEW"),
        {"file_size": 30_000_000},
    ),
    Op("promote", "POST", "/files/{file}/versions/current", 201, "OCEW", {"id": "{version}"}),
    Op("set the time", "PUT", "/files/{file}", 200, "OCEW", {"content_modified_at": "2020-01-01T00:00:00Z"}),
    Op("lock", "PUT", "/files/{file}", 200, "OCEW", {"lock": {"access": "lock"}}),
    Op("unlock somebody else's", "PUT", "/files/{locked}", 200, "OC", {"lock": None}),
    Op("delete a version", "DELETE", "/files/{file}/versions/{version}", 204, "OCE"),
    # Other properties.
    Op("rename a file", "PUT", "/files/{file}", 200, "OCE", {"name": "renamed file"}),
    Op("rename a folder", "PUT", "/folders/{folder}", 200, "OCE", {"name": "renamed folder"}),
    Op("rename the shared folder", "PUT", "/folders/{shared}", 200, "OCE", {"name": "renamed"}),
    Op("rename a web link", "PUT", "/web_links/{link}", 200, "OCE", {"name": "renamed"}),
    Op("describe", "PUT", "/files/{file}", 200, "OCE", {"description": "d"}),
    Op("tag", "PUT", "/folders/{folder}", 200, "OCE", {"tags": ["t"]}),
    Op("settings", "PUT", "/folders/{shared}", 200, "OC", {"can_non_owners_view_collaborators": True}),
    # Metadata.
    Op("see metadata", "GET", "/files/{file}/metadata", 200, "OCEWQVPU"),
    Op("add metadata", "POST", "/files/{file}/metadata/global/properties", 201, "OCEWQU", {"a": "b"}),
    Op(
        *("change metadata", "PUT", "/files/{described}/metadata/global/properties", 200, "OCEWQU"),
        [{"op": "add", "path": "/b", "value": "c"}],
    ),
    Op("drop metadata", "DELETE", "/files/{described}/metadata/global/properties", 204, "OCEWQU"),
    # Elsewhere.
    Op("move inside", "PUT", "/files/{file}", 200, "OCE", {"parent": {"id": "{folder}"}}),
    Op("move out", "PUT", "/files/{file}", 200, "OCE", OWN),
    Op("move a folder out", "PUT", "/folders/{folder}", 200, "OCE", OWN),
    Op("move in", "PUT", "/files/{own}", 200, "OCEWQU", HERE),
    Op("move the shared folder", "PUT", "/folders/{shared}", 200, "O", {"parent": {"id": "{own folder}"}}),
    Op("copy a file", "POST", "/files/{file}/copy", 201, "OCEWV", {"name": "copy"} | OWN),
    Op("copy a folder", "POST", "/folders/{folder}/copy", 201, "OCEWV", {"name": "copies"} | OWN),
    Op("copy in", "POST", "/files/{own}/copy", 201, "OCEWQU", {"name": "copy"} | HERE),
    # Away.
    Op("delete a file", "DELETE", "/files/{file}", 204, "OCE"),
    Op("delete a web link", "DELETE", "/web_links/{link}", 204, "OCE"),
    Op("delete a folder", "DELETE", "/folders/{folder}?recursive=true", 204, "OCE"),
    Op("see the owner's trash", "GET", "/files/{trashed}/trash", 200, "O", refused=404),
    Op("restore from it", "POST", "/files/{trashed}", 201, "O", {}, refused=404),
    Op("purge from it", "DELETE", "/files/{trashed}/trash", 204, "O", refused=404),
    # Others.
    Op("make a shared link", "PUT", "/files/{file}", 200, "OCEWV", {"shared_link": {}}),
    Op("a password", "PUT", "/files/{linked}", 200, "OCE", {"shared_link": {"password": "p"}}),
    Op("access", "PUT", "/folders/{folder}", 200, "OCE", {"shared_link": {"access": "company"}}),
    Op("unshare", "PUT", "/files/{linked}", 200, "OCE", {"shared_link": None}),
    Op("see collaborators", "GET", "/folders/{shared}/collaborations", 200, "OCEWQVPU"),
    Op("see a file's collaborators", "GET", "/files/{file}/collaborations", 200, "OCEWQVPU"),
    Op("see a collaboration", "GET", "/collaborations/{other}", 200, "OCEWQVPU", refused=404),
    Op("invite", "POST", "/collaborations", 201, "OCE", "invite viewer folder"),
    Op("invite to the shared folder", "POST", "/collaborations", 201, "OCE", "invite editor shared"),
    Op("invite to a file", "POST", "/collaborations", 201, "OCE", "invite viewer file"),
    Op("make a co-owner", "POST", "/collaborations", 201, "OC", "invite co-owner inner"),
    Op("change a role", "PUT", "/collaborations/{other}", 200, "OCE", {"role": "previewer"}),
    Op("raise a role", "PUT", "/collaborations/{other}", 200, "OC", {"role": "co-owner"}),
    Op("degrade a co-owner", "PUT", "/collaborations/{co-owner}", 200, "OC", {"role": "viewer"}),
    Op("remove a co-owner", "DELETE", "/collaborations/{co-owner}", 204, "OC"),
    Op("show the path", "PUT", "/collaborations/{other}", 200, "O", {"can_view_path": True}),
    Op("limit in time", "PUT", "/collaborations/{other}", 200, "OCE", {"expires_at": "2099-01-01T00:00:00Z"}),
    Op("accept for another", "PUT", "/collaborations/{pending}", 200, "", {"status": "accepted"}),
    Op("end another's", "DELETE", "/collaborations/{other}", 204, "OCE"),
    Op("hand over", "PUT", "/collaborations/{other}", 204, "O", {"role": "owner"}),
]


# After these, what later lines speak of is not there any more, or not as it was.
SPOILING = {
    *("delete a version", "drop metadata", "move inside", "move out", "move a folder out", "move in"),
    *("move the shared folder", "delete a file", "delete a web link", "delete a folder"),
    *("restore from it", "unshare", "raise a role", "remove a co-owner", "end another's"),
}


class World:
    """A shared folder, and all that the lines of the table speak of."""

    def __init__(self, owner, caller, people):
        self.owner, self.caller, self.people = owner, caller, people
        self.count = 0

    async def make(self, role):
        """Everything anew, beside what was made before."""
        owner = self.owner
        self.count += 1
        other = await self.people.add(f"other{self.count}@example.com")
        partner = await self.people.add(f"partner{self.count}@example.com")
        self.guest = await self.people.add(f"guest{self.count}@example.com")
        shared = await owner.folder(f"shared {self.count}")
        if role not in ("owner", "nobody"):
            await sharing.share(owner, shared, self.caller, role)
        found = {"shared": shared}
        for name in ("file", "locked", "described", "linked", "trashed"):
            found[name] = await owner.upload(name, b"one", shared["id"])
        found["file"] = await owner.version(found["file"]["id"], b"two")
        found["folder"] = await owner.folder("folder", shared["id"])
        await owner.upload("inside", b"x", found["folder"]["id"])
        found["inner"] = await owner.folder("inner", shared["id"])
        found["link"] = await owner.link("link", shared["id"])
        found["own"] = await self.caller.upload(f"own {self.count}", b"x")
        found["own folder"] = await self.caller.folder(f"own folder {self.count}")
        found["other"] = await sharing.share(owner, shared, other, "viewer")
        found["co-owner"] = await sharing.share(owner, shared, partner, "co-owner")
        found["pending"] = await sharing.share(owner, shared, f"somebody{self.count}@nowhere.example")
        ids = {name: one["id"] for name, one in found.items()}
        past = await owner.ask("GET", f"/files/{ids['file']}/versions")
        ids["version"] = past["entries"][0]["id"]
        lock = json.dumps(
            {"id": "1", "by": other.user, "created_at": 1, "expires_at": None, "prevents_download": False}
        )
        await owner.store.write(
            lambda conn: conn.execute("UPDATE item SET lock = ? WHERE id = ?", (lock, int(ids["locked"])))
        )
        await owner.ask(
            *("POST", f"/files/{ids['described']}/metadata/global/properties"), json={"a": "1"}, expect=201
        )
        await owner.ask("PUT", f"/files/{ids['linked']}", json={"shared_link": {}})
        await owner.ask("DELETE", f"/files/{ids['trashed']}", expect=204)
        return ids

    async def request(self, op, ids):
        """How a line's request ends."""
        caller, path = self.caller, op.path
        for name, wire_id in ids.items():
            path = path.replace(f"{{{name}}}", wire_id)
        if isinstance(op.body, str):
            _, role, name = op.body.split()
            kind = "file" if name == "file" else "folder"
            whom = {"type": "user", "id": str(self.guest.user)}
            body = {"item": {"type": kind, "id": ids[name]}, "accessible_by": whom, "role": role}
        else:
            body = json.loads(self._filled(json.dumps(op.body), ids))
        if op.method == "UPLOAD":
            data, headers = caller.form(body, b"bytes")
            return (await caller.http.post(UPLOADS + path, content=data, headers=headers)).status_code
        return (await caller.http.request(op.method, path, json=body)).status_code

    @staticmethod
    def _filled(text, ids):
        for name, wire_id in ids.items():
            text = text.replace(f"{{{name}}}", wire_id)
        return text


@pytest.mark.parametrize("letter", ROLES)
async def test_every_operation(api, uwe, people, letter):
    world = World(api, api if letter == "O" else uwe, people)
    ids = await world.make(ROLES[letter])
    wrong = []
    for op in TABLE:
        expected = op.status if letter in op.who else 404 if letter == "-" else op.refused
        status = await world.request(op, ids)
        if status != expected:
            wrong.append(f"{op.name}: {status}, not {expected}")
        if status < 300 and op.name in SPOILING:
            ids = await world.make(ROLES[letter])
    assert wrong == []


# What `permissions` says: the same rights, in the words of items.
PERMISSIONS = {
    "can_download": "OCEWV",
    "can_preview": "OCEWQVP",
    "can_comment": "OCEWQVP",
    "can_annotate": "OCEWQVP",
    "can_view_annotations_all": "OCEWQVP",
    "can_view_annotations_self": "OCEWQVP",
    "can_rename": "OCE",
    "can_delete": "OCE",
    "can_share": "OCEWV",
    "can_set_share_access": "OCE",
    "can_invite_collaborator": "OCE",
    "can_apply_watermark": "OC",
}


@pytest.mark.parametrize("letter", [one for one in ROLES if one != "-"])
async def test_permissions_say_the_same(api, uwe, people, letter):
    world = World(api, api if letter == "O" else uwe, people)
    ids = await world.make(ROLES[letter])

    async def permissions(kind, name):
        url = f"/{kind}s/{ids[name]}?fields=permissions"
        return (await world.caller.ask("GET", url))["permissions"]

    def expected(names, **more):
        return {name: letter in PERMISSIONS[name] for name in names} | {
            name: letter in who for name, who in more.items()
        }

    of_folders = [name for name in PERMISSIONS if name in roles.PERMISSIONS[ItemKind.FOLDER]]
    assert await permissions("file", "file") == expected(PERMISSIONS, can_upload="OCEW")
    assert await permissions("folder", "folder") == expected(of_folders, can_upload="OCEWQU")
    # Deleting is a right on the folder above, which others do not have on what is shared itself.
    assert await permissions("folder", "shared") == expected(of_folders, can_upload="OCEWQU") | {
        "can_delete": letter == "O"
    }
    assert await permissions("web_link", "link") == expected(of_folders)


def test_the_table_knows_every_role():
    assert {*roles.ROLES, "owner", "nobody"} == set(ROLES.values())


async def test_what_a_file_is_shared_for(api, uwe):
    file = await api.upload("f", b"x")
    assert (await sharing.share(api, file, uwe, "previewer", expect=400))["code"] == "bad_request"
    await sharing.share(api, file, uwe, "editor")
    url = f"/files/{file['id']}"
    found = await uwe.ask("GET", f"{url}?fields=permissions,allowed_invitee_roles")
    assert found["permissions"]["can_upload"]
    assert not found["permissions"]["can_delete"]
    assert found["allowed_invitee_roles"] == ["editor", "viewer"]
    await uwe.version(file["id"], b"y")
    await uwe.ask("PUT", url, json={"name": "g"})
    await uwe.ask("DELETE", url, expect=403)
    await uwe.ask("PUT", url, json={"parent": {"id": "0"}})  # it is there already
    folder = await uwe.folder("mine")
    await uwe.ask("PUT", url, json={"parent": {"id": folder["id"]}}, expect=403)


async def test_roles_add_up(api, uwe):
    outer = await api.folder("outer")
    inner = await api.folder("inner", outer["id"])
    file = await api.upload("f", b"x", inner["id"])
    await sharing.share(api, outer, uwe, "previewer uploader")
    await uwe.http.get(f"/files/{file['id']}/content")
    await uwe.ask("GET", f"/files/{file['id']}/content", expect=403)
    await sharing.share(api, inner, uwe, "viewer")
    assert await uwe.bytes(file["id"]) == b"x"
    await uwe.folder("new", inner["id"])
