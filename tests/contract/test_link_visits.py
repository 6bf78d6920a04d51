"""Tokens by a shared link, as a drive without an account asks for them; a file as the only one of a root."""

import pydantic
import pytest

from cmsfs import errors
from cmsfs.auth import bearer, grants, link_file, refusals
from cmsfs.client import lone_file, session
from cmsfs.client.content.search import EVERYTHING
from cmsfs.models.content import items, search


@pytest.fixture
def kept(tmp_path):
    """`kept(url, item, password)`: the file of a mounted link."""

    def keep(url, item, password=None):
        access = link_file.LinkAccess(
            url=url, password=password, type=item.type, id=item.id, name=item.name or ""
        )
        link_file.keep(tmp_path / "state" / "link", access)
        return tmp_path / "state" / "link"

    return keep


async def _visitor(way, anonymous, file):
    auth = bearer.BearerAuth(grants.visiting(anonymous, file))
    return session.open_client(way.endpoints, transport=way.transport, auth=auth)


def _terms(**terms):
    return items.NewSharedLink.model_validate(terms)


@pytest.mark.parametrize("way", ["embedded"], indirect=True)
async def test_a_drive_by_a_link_hears_of_its_end(way, client, anonymous, upload, kept):
    folder = await client.folders.create("shared", "0")
    await upload("a.txt", b"text", folder.id)
    url = (await client.shared_links.share("folder", folder.id, _terms(password="first"))).url
    file = kept(url, folder, "first")
    async with await _visitor(way, anonymous, file) as visitor:
        assert [item.name async for item in visitor.folders.items(folder.id)] == ["a.txt"]
        await client.shared_links.share("folder", folder.id, _terms(password="second"))
        with pytest.raises(errors.NeedsLogin) as told:
            await visitor.items.get("folder", folder.id)
        assert told.value.message == refusals.LINK_PASSWORD
        # The password that is named again counts without a new start.
        kept(url, folder, "second")
        assert (await visitor.items.get("folder", folder.id)).name == "shared"
        await client.shared_links.unshare("folder", folder.id)
        with pytest.raises(errors.NeedsLogin) as told:
            await visitor.items.get("folder", folder.id)
        assert told.value.message == refusals.LINK_ENDED


@pytest.mark.parametrize("way", ["embedded"], indirect=True)
async def test_a_file_is_the_only_one_of_a_root(way, client, anonymous, upload, kept):
    folder = await client.folders.create("inside", "0")
    shared = await upload("a.txt", b"text", folder.id)
    await upload("b.txt", b"other", folder.id)
    file = kept((await client.shared_links.share("file", shared.id)).url, shared)
    async with await _visitor(way, anonymous, file) as opened:
        wire = lone_file.LoneFileWire(opened.wire, way.endpoints.base_url, shared.id)
        visitor = session.Client(wire, way.endpoints)
        root = await visitor.items.get("folder", "0")
        assert (root.id, (await visitor.folders.permissions("0")).can_upload) == ("0", False)
        (listed,) = [item async for item in visitor.folders.items("0")]
        (found,) = (
            await visitor.search.page(search.Query(query=EVERYTHING, ancestor_folder_ids=["0"]))
        ).entries
        told = await visitor.items.get("file", shared.id)
        assert {(one.id, one.name, one.parent.id) for one in (listed, found, told)} == {
            (shared.id, "a.txt", "0")
        }
        with pytest.raises(errors.NotFound):
            await visitor.items.get("folder", folder.id)


def test_a_link_that_others_can_read_is_rejected(kept):
    file = kept("https://files.example.com/s/word", items.File(id="1", name="a"), "secret")
    read = link_file.read(file)
    assert (read.url, read.password) == (
        pydantic.SecretStr("https://files.example.com/s/word"),
        pydantic.SecretStr("secret"),
    )
    assert "secret" not in repr(read)
    assert "files.example.com" not in repr(read)
    file.chmod(0o644)
    with pytest.raises(errors.ConfigError, match="can be read by others"):
        link_file.read(file)
    with pytest.raises(errors.ConfigError, match="cmsfs mount LINK"):
        link_file.read(file.with_name("none"))
