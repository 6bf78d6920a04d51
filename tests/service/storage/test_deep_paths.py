"""Folders so deep that the path of what is in them is longer than what a usual index takes."""

import pytest

DEEP = 480


@pytest.fixture
async def deep(api, service):
    """Two folders at the top, the first of a chain below the first, and a file in the last."""

    def chain(conn):
        # Numbers that have nothing in common: a path that repeats itself is compressed before it is too long.
        above = conn.execute("SELECT * FROM item WHERE id = ?", (int(top["id"]),)).fetchone()
        for level in range(DEEP):
            number = 10**9 + (level * 7_368_787 * 104_729) % 10**9
            columns = dict(above) | {"id": number, "parent": above["id"], "name": "d", "name_key": "d"}
            columns |= {"path": f"{above['path']}{above['id']}/", "link": None}
            names = ", ".join(columns)
            marks = ", ".join("?" * len(columns))
            conn.execute(f"INSERT INTO item ({names}) VALUES ({marks})", tuple(columns.values()))
            above = columns
        return above["id"]

    top, other = await api.folder("top"), await api.folder("other")
    last = await service.write(chain)
    return top, other, await api.upload("deep.txt", b"found below", str(last))


async def test_a_deep_file_is_found_moved_and_removed(api, service, deep):
    top, other, file = deep
    path = service.read("SELECT path FROM item WHERE id = ?", int(file["id"]))[0]["path"]
    assert len(path) > 5000
    assert await api.names("below", ancestor_folder_ids=top["id"]) == {"deep.txt"}
    found = await api.search('NOT "x"', ancestor_folder_ids=top["id"], type="file")
    assert [one["id"] for one in found["entries"]] == [file["id"]]
    await api.ask("PUT", f"/folders/{top['id']}", json={"parent": {"id": other["id"]}})
    assert await api.names("below", ancestor_folder_ids=other["id"]) == {"deep.txt"}
    await api.ask("DELETE", f"/folders/{other['id']}?recursive=true", expect=204)
    assert await api.names("below") == set()
    await api.ask("POST", f"/folders/{other['id']}", json={}, expect=201)
    assert await api.bytes(file["id"]) == b"found below"
