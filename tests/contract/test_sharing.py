"""Versions, locks and shared links, from our client."""

import hashlib
from datetime import UTC, datetime

import pytest

from cmsfs import errors
from cmsfs.client.content.uploads import BytesSource
from cmsfs.models.content import items


async def test_back_to_an_old_version(client, upload):
    file = await upload("a.txt", b"old")
    sha1 = hashlib.sha1(b"new").hexdigest()
    await client.uploads.new_version(file.id, BytesSource(b"new"), sha1=sha1)
    [old] = await client.versions.past(file.id)
    made = await client.versions.promote(file.id, old.id)
    assert (made.sha1, (await client.items.get("file", file.id)).sha1) == (file.sha1, file.sha1)
    await client.versions.delete(file.id, old.id)
    assert (await client.versions.get(file.id, old.id)).trashed_at is not None
    assert (await client.versions.restore(file.id, old.id)).trashed_at is None


async def test_a_lock(client, upload):
    file = await upload("a.txt")
    when = datetime(2099, 1, 2, tzinfo=UTC)
    locked = await client.locks.lock(file.id, expires_at=when, prevent_download=True)
    assert (locked.lock.expired_at, locked.lock.is_download_prevented) == (when, True)
    assert (await client.locks.unlock(file.id)).lock is None


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_a_link(client, upload, kind):
    item = await upload("a.txt") if kind == "file" else await client.folders.create("f", "0")
    link = await client.shared_links.share(kind, item.id)
    found = await client.shared_links.find(link.url)
    assert (found.type, found.id) == (kind, item.id)
    terms = items.NewSharedLink(access="company", password="open & sesame")
    link = await client.shared_links.share(kind, item.id, terms)
    assert (link.access, link.is_password_enabled) == ("company", True)
    await client.shared_links.find(link.url, password="open & sesame")
    await client.shared_links.unshare(kind, item.id)
    with pytest.raises(errors.NotFound):
        await client.shared_links.find(link.url)
