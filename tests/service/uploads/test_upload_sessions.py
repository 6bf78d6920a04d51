"""Uploads in parts."""

import hashlib
import io

import pytest
import trio

from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.service.storage import store
from cmsfs.service.storage.parts import FolderParts
from cmsfs.service.uploads import upload_sessions

UPLOADS = "http://service.test/api/2.0"
SESSIONS = f"{UPLOADS}/files/upload_sessions"
PART = 1000
CONTENT = bytes(range(256)) * 10  # two whole parts and a rest


def sha1(data):
    return hashlib.sha1(data, usedforsecurity=False)


def digest(data):
    return models_upload_sessions.digest(sha1(data).digest())


async def code(answer):
    return (await answer)["code"]


async def test_a_file_in_parts(api, small):
    session = await api.begin()
    assert (session["type"], session["part_size"], session["total_parts"]) == ("upload_session", PART, 3)
    url = f"{SESSIONS}/{session['id']}"
    assert session["session_endpoints"]["upload_part"] == url
    assert session["session_endpoints"]["commit"] == f"{url}/commit"
    parts = []
    for offset in (2 * PART, 0, PART):
        part = (await api.put(session, offset))["part"]
        data = CONTENT[offset : offset + PART]
        assert (part["offset"], part["size"], part["sha1"]) == (offset, len(data), sha1(data).hexdigest())
        parts.append(part)
    listed = await api.ask("GET", f"{url}/parts")
    assert listed["total_count"] == 3
    assert [one["offset"] for one in listed["entries"]] == [0, PART, 2 * PART]
    page = await api.ask("GET", f"{url}/parts?limit=1&offset=1")
    assert [one["offset"] for one in page["entries"]] == [PART]
    assert (await api.ask("GET", url))["num_parts_processed"] == 3
    times = {"content_created_at": "2020-01-02T03:04:05Z", "content_modified_at": "2021-01-02T03:04:05Z"}
    result = await api.commit(session, parts, attributes=times | {"description": "large"})
    file = result["entries"][0]
    assert (result["total_count"], file["name"], file["size"]) == (1, "big.bin", len(CONTENT))
    assert (file["sha1"], file["description"]) == (sha1(CONTENT).hexdigest(), "large")
    assert file["content_modified_at"].startswith("2021-01-02T03:04:05")
    assert await api.bytes(file["id"]) == CONTENT
    # It is over: no session, no parts on disk.
    assert (await api.ask("GET", url, expect=404))["code"] == "not_found"
    assert list(api.store.parts.root.iterdir()) == []
    assert list(api.store.blobs.incoming.iterdir()) == []


async def test_a_version_in_parts(api, small):
    file = await api.upload("a.txt", b"old words")
    url = f"{UPLOADS}/files/{file['id']}/upload_sessions"
    session = await api.ask("POST", url, json={"file_size": len(CONTENT)}, expect=201)
    parts = await api.put_all(session)
    refused = await api.commit(session, parts, expect=412, **{"if-match": "7"})
    assert refused["code"] == "precondition_failed"
    new = (await api.commit(session, parts, attributes={"name": "b.txt"}, **{"if-match": file["etag"]}))[
        "entries"
    ][0]
    assert (new["id"], new["name"], new["size"]) == (file["id"], "b.txt", len(CONTENT))
    assert new["file_version"]["id"] != file["file_version"]["id"]
    assert await api.bytes(file["id"]) == CONTENT
    assert await api.bytes(file["id"], params={"version": file["file_version"]["id"]}) == b"old words"


NOT_BEGUN = [
    ({"file_size": 5000, "file_name": "a"}, 400, "missing_destination"),
    ({"folder_id": "x", "file_size": 5000, "file_name": "a"}, 400, "invalid_folder_id"),
    ({"folder_id": {}, "file_size": 5000, "file_name": "a"}, 400, "invalid_folder_id"),
    ({"folder_id": "0", "file_name": "a"}, 400, "missing_file_size"),
    ({"folder_id": "0", "file_size": "many", "file_name": "a"}, 400, "invalid_file_size"),
    ({"folder_id": "0", "file_size": -1, "file_name": "a"}, 400, "invalid_file_size"),
    ({"folder_id": "0", "file_size": True, "file_name": "a"}, 400, "invalid_file_size"),
    ({"folder_id": "0", "file_size": 2**70, "file_name": "a"}, 400, "invalid_file_size"),
    ({"folder_id": "0", "file_size": 99, "file_name": "a"}, 400, "file_size_too_small"),
    ({"folder_id": "0", "file_size": 5000}, 400, "missing_file_name"),
    ({"folder_id": "0", "file_size": 5000, "file_name": "a/b"}, 400, "item_name_invalid"),
    ({"folder_id": "0", "file_size": 5000, "file_name": ["a"]}, 400, "item_name_invalid"),
    ({"folder_id": "0", "file_size": 5000, "file_name": "a" * 256}, 400, "item_name_too_long"),
    ({"folder_id": "77", "file_size": 5000, "file_name": "a"}, 404, "invalid_parameter"),
    ({"folder_id": "0", "file_size": 5000, "file_name": "TAKEN"}, 409, "item_name_in_use"),
    ({"folder_id": "0", "file_size": 2**61, "file_name": "a"}, 403, "file_size_limit_exceeded"),
]


@pytest.mark.parametrize(("body", "status", "word"), NOT_BEGUN, ids=lambda one: str(one)[:50])
async def test_what_cannot_be_begun(api, small, body, status, word):
    await api.upload("taken")
    assert (await api.ask("POST", SESSIONS, json=body, expect=status))["code"] == word
    assert list(api.store.parts.root.iterdir()) == []


async def test_no_space_no_session(api, small):
    await api.store.write(lambda conn: conn.execute("UPDATE account SET space_amount = space_used + 2000"))
    assert (await api.begin(expect=403))["code"] == "storage_limit_exceeded"


async def test_files_below_twenty_megabytes_are_not_for_sessions(api):
    assert (await api.begin(size=19_999_999, expect=400))["code"] == "file_size_too_small"
    session = await api.begin(size=20_000_000)
    assert (session["part_size"], session["total_parts"]) == (8 * 1024 * 1024, 3)


@pytest.mark.parametrize(
    ("size", "part"),
    [(10**9, 8), (32 << 30, 8), ((32 << 30) + 1, 16), (500 << 30, 128)],
)
def test_very_large_files_have_larger_parts(size, part):
    assert upload_sessions.part_size(size) == part << 20


def without(parts, position):
    return parts[:position] + parts[position + 1 :]


MISMATCHES = [
    lambda parts: without(parts, 1),
    lambda parts: [*parts, parts[0]],
    lambda parts: [*without(parts, 0), parts[0] | {"part_id": "77"}],
    lambda parts: [*without(parts, 0), parts[0] | {"offset": 7}],
    lambda parts: [*without(parts, 0), parts[0] | {"sha1": "0" * 40}],
    lambda parts: [],
]


@pytest.mark.parametrize("spoil", MISMATCHES)
async def test_a_commit_names_the_parts_that_arrived(api, small, spoil):
    session = await api.begin()
    parts = await api.put_all(session)
    assert await code(api.commit(session, spoil(parts), expect=400)) == "parts_mismatch"
    # In another order, and without the digests, they are the same parts.
    plain = [{name: part[name] for name in ("part_id", "offset", "size")} for part in reversed(parts)]
    await api.commit(session, plain)


async def test_a_commit_with_parts_missing(api, small):
    session = await api.begin()
    parts = [(await api.put(session, 0))["part"]]
    assert await code(api.commit(session, parts, expect=400)) == "parts_mismatch"


async def test_a_commit_has_the_digest_of_the_whole(api, small):
    session = await api.begin()
    parts = await api.put_all(session)
    assert await code(api.commit(session, parts, whole=b"other", expect=400)) == "bad_digest"
    url = f"{SESSIONS}/{session['id']}/commit"
    assert await code(api.ask("POST", url, json={"parts": parts}, expect=400)) == "bad_request"
    assert await api.names() == set()
    assert [one for one in api.store.blobs.root.rglob("*") if one.is_file()] == []
    await api.commit(session, parts)


async def test_a_name_that_was_taken_meanwhile(api, small):
    session = await api.begin()
    parts = await api.put_all(session)
    holder = await api.upload("BIG.bin")
    refused = await api.commit(session, parts, expect=409)
    assert refused["context_info"]["conflicts"]["id"] == holder["id"]
    # The session is as it was: another name will do.
    file = (await api.commit(session, parts, attributes={"name": "other.bin"}))["entries"][0]
    assert (file["name"], await api.bytes(file["id"])) == ("other.bin", CONTENT)


async def test_a_folder_that_went_meanwhile(api, small):
    folder = await api.folder("f")
    session = await api.begin(folder=folder["id"])
    parts = await api.put_all(session)
    await api.ask("DELETE", f"/folders/{folder['id']}", expect=204)
    assert await code(api.commit(session, parts, expect=404)) == "trashed"


async def test_a_commit_that_takes_long(api, small, monkeypatch):
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 0)
    session = await api.begin()
    parts = await api.put_all(session)
    url = f"{SESSIONS}/{session['id']}"
    for _ in range(2):
        answer = await api.http.post(
            f"{url}/commit", json={"parts": parts}, headers={"digest": digest(CONTENT)}
        )
        assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (202, b"", "1")
        assert (await api.ask("GET", url))["num_parts_processed"] == 3
    file = (await api.commit(session, parts))["entries"][0]
    assert await api.bytes(file["id"]) == CONTENT


async def test_a_session_is_its_makers(api, uwe, small):
    session = await api.begin()
    url = f"{SESSIONS}/{session['id']}"
    parts = await api.put_all(session)
    word = "access_denied_insufficient_permissions"
    assert await code(uwe.put(session, 0, expect=403)) == word
    assert await code(uwe.commit(session, parts, expect=403)) == word
    for method, path in (("GET", ""), ("GET", "/parts"), ("DELETE", ""), ("POST", "/log")):
        assert await code(uwe.ask(method, url + path, expect=403)) == word
    await api.ask("POST", f"{url}/log", expect=204)


async def test_giving_up(api, small):
    session = await api.begin()
    await api.put_all(session)
    url = f"{SESSIONS}/{session['id']}"
    await api.ask("DELETE", url, expect=204)
    assert await code(api.put(session, 0, expect=404)) == "not_found"
    await api.ask("DELETE", url, expect=404)
    assert list(api.store.parts.root.iterdir()) == []


async def test_giving_up_what_was_committed_leaves_the_file(api, small, uwe):
    session = await api.begin()
    made = await api.commit(session, await api.put_all(session))
    url = f"{SESSIONS}/{session['id']}"
    for _ in range(2):
        await api.ask("DELETE", url, expect=204)
    await uwe.ask("DELETE", url, expect=403)
    assert await api.bytes(made["entries"][0]["id"]) == CONTENT
    # It is over for everything else.
    await api.ask("GET", url, expect=404)
    await api.put(session, 0, expect=404)
    await api.commit(session, [], expect=404)
    assert list(api.store.parts.root.iterdir()) == []


async def test_giving_up_in_the_middle_of_a_commit(api, small, monkeypatch):
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 0)
    session = await api.begin()
    parts = await api.put_all(session)
    answer = await api.http.post(
        f"{SESSIONS}/{session['id']}/commit", json={"parts": parts}, headers={"digest": digest(CONTENT)}
    )
    assert answer.status_code == 202
    await api.ask("DELETE", f"{SESSIONS}/{session['id']}", expect=204)
    await api.commit(session, parts, expect=404)
    assert list(api.store.blobs.incoming.iterdir()) == []


def expire(service, age):
    def txn(conn):
        conn.execute("UPDATE upload_session SET expires_at = ?", (service.now() - age,))

    return service.write(txn)


async def test_sessions_live_for_seven_days(api, small):
    session = await api.begin()
    lives = api.store.read("SELECT expires_at - created_at AS life FROM upload_session")[0]["life"]
    assert lives == 7 * 86_400 * 10**6
    parts = await api.put_all(session)
    await expire(api.store, 1)
    url = f"{SESSIONS}/{session['id']}"
    assert await code(api.put(session, 0, expect=410)) == "session_expired"
    assert await code(api.commit(session, parts, expect=410)) == "session_expired"
    assert await code(api.ask("GET", url, expect=410)) == "session_expired"
    # The next session clears the parts away; the row goes when nobody can be asking any more.
    other = await api.begin(name="other")
    assert [one.name for one in api.store.parts.root.iterdir()] == [other["id"]]
    assert await code(api.ask("GET", url, expect=410)) == "session_expired"
    await expire(api.store, 8 * 86_400 * 10**6)
    await api.begin(name="third")
    await api.ask("GET", url, expect=404)


async def test_a_restart_in_the_middle(root, small, fill, as_user):
    async with store.open_store(root) as first:
        await fill(first)
        api = await as_user(first, "ann@example.com")
        session = await api.begin()
        done = [(await api.put(session, offset))["part"] for offset in (0, 2 * PART)]
        # As a crash leaves them: a part and a session that have no row.
        assert isinstance(first.parts, FolderParts)
        (first.parts.path(session["id"]) / "orphan").write_bytes(b"x")
        first.parts.create_session("ORPHAN")
    async with store.open_store(root) as second:
        assert isinstance(second.parts, FolderParts)
        assert [one.name for one in second.parts.root.iterdir()] == [session["id"]]
        assert len(list(second.parts.path(session["id"]).iterdir())) == 2
        api = await as_user(second, "ann@example.com")
        listed = (await api.ask("GET", f"{SESSIONS}/{session['id']}/parts"))["entries"]
        assert listed == done
        parts = [*listed, (await api.put(session, PART))["part"]]
        file = (await api.commit(session, parts))["entries"][0]
        assert await api.bytes(file["id"]) == CONTENT


async def test_a_restart_in_the_middle_of_a_commit(root, small, fill, as_user, monkeypatch):
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 0)
    async with store.open_store(root) as first:
        await fill(first)
        api = await as_user(first, "ann@example.com")
        session = await api.begin()
        parts = await api.put_all(session)
        url = f"{SESSIONS}/{session['id']}/commit"
        answer = await api.http.post(url, json={"parts": parts}, headers={"digest": digest(CONTENT)})
        assert answer.status_code == 202
    assert list((root / "incoming").iterdir()) == []
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 10)
    async with store.open_store(root) as second:
        api = await as_user(second, "ann@example.com")
        file = (await api.commit(session, parts))["entries"][0]
        assert await api.bytes(file["id"]) == CONTENT


async def test_what_was_joined_is_swept_meanwhile(api, small, monkeypatch):
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 0)
    session = await api.begin()
    parts = await api.put_all(session)
    for _ in range(2):
        await api.ask(
            "POST",
            f"{SESSIONS}/{session['id']}/commit",
            json={"parts": parts},
            headers={"digest": digest(CONTENT)},
            expect=202,
        )
    for path in api.store.blobs.incoming.iterdir():
        path.unlink()
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 10)
    assert await api.commit(session, parts, expect=202) is None
    await api.commit(session, parts)


async def test_the_beginning_of_a_text_is_found(api, small):
    text = b"quincunx " * 300
    session = await api.begin(name="t.txt", size=len(text))
    parts = []
    for at in (0, PART, 2 * PART):
        answer = await api.put(session, at, text[at : at + PART], total=len(text))
        parts.append(answer["part"])
    await api.commit(session, parts, whole=text)
    assert await api.names("quincunx") == {"t.txt"}


async def test_the_public_client_uploads_a_big_file(client):
    data = bytes(21_000_000)

    def story():
        file = client.chunked_uploads.upload_big_file(io.BytesIO(data), "big.bin", len(data), "0")
        assert (file.name, file.size, file.sha_1) == ("big.bin", len(data), sha1(data).hexdigest())
        changed = data[:-1] + b"x"
        new = client.chunked_uploads.upload_big_file_version(file.id, io.BytesIO(changed), len(changed))
        assert (new.id, new.sha_1) == (file.id, sha1(changed).hexdigest())
        assert client.downloads.download_file(file.id).read() == changed

    await trio.to_thread.run_sync(story)
