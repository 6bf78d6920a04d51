"""The package's extension in a real Nautilus on a screen: its marks, its menu, and that it never waits."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.file_manager import Files
from tests.support.machine import Person

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# As an administrator of the service would: what is left to Ada, in bytes.
ALLOW = """
import json, pathlib, sys, urllib.parse, urllib.request
folder = pathlib.Path.home() / '.local/share/cmsfs/service'
known = json.loads((folder / 'credentials.json').read_text())
form = {name: known[name] for name in ('client_id', 'client_secret')} | {
    'grant_type': 'client_credentials', 'box_subject_type': 'user', 'box_subject_id': known['user_id'],
}
def ask(path, data, method, token=''):
    headers = {'Authorization': f'Bearer {token}'} if token else {}
    return json.load(urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method)))
token = ask('/oauth2/token', urllib.parse.urlencode(form).encode(), 'POST')['access_token']
used = ask('/2.0/users/me', None, 'GET', token)['space_used']
body = json.dumps({'space_amount': used + LEFT}).encode()
ask('/2.0/users/' + known['user_id'], body, 'PUT', token)
"""


def allow(person: Person, left: int) -> None:
    url = f"http://127.0.0.1:{person.port}"
    person.sh(f"python3 - <<'END'\nURL, LEFT = {url!r}, {left}{ALLOW}END")


@pytest.fixture
def states(files: Files) -> Iterator[Any]:
    """A folder `Marks` with a file in each state; its name says which."""
    person = files.person
    person.sh(
        "mkdir cmsfs/Marks; cd cmsfs/Marks;"
        "for one in both online pinned synced; do echo $one > $one.txt; done;"
        "cmsfs sync; cmsfs pin pinned.txt; cmsfs free online.txt;"
        "cmsfs pause; echo ours > both.txt; echo theirs > ~/theirs; cmsfs put ~/theirs /Marks/both.txt;"
        "cmsfs resume; cmsfs sync"
    )
    files.until(
        lambda: json.loads(person.sh("cmsfs conflicts --json").stdout)["copies"], what="there is no conflict"
    )
    allow(person, 100)
    try:
        # Told with an exit code of its own, that it is held.
        person.sh("cd cmsfs/Marks; seq 100 > held.txt; cmsfs sync", check=False)
        person.sh("cmsfs pause; echo new > cmsfs/Marks/waiting.txt")
        yield files
    finally:
        allow(person, 10**10)
        person.sh("cmsfs resume; cmsfs retry /Marks/held.txt || true; cmsfs sync")


@pytest.fixture
def notes(files: Files) -> Files:
    """The file manager; `Notes/notes.txt` has a version before this one."""
    files.person.sh("mkdir -p cmsfs/Notes; cd cmsfs/Notes; echo one > notes.txt; cmsfs sync")
    files.person.sh("cd cmsfs/Notes; echo two > notes.txt; cmsfs sync")
    return files


def test_each_state_has_its_mark(states: Files) -> None:
    states.show("Marks/synced.txt")
    # As they are sorted: both, both (conflicted copy), held, online, pinned, synced, waiting.
    wanted = ["online", "conflict", "held", "online", "pinned", "synced", "syncing"]
    states.until(lambda: states.marks("states") == wanted, what=f"not {wanted}: {states.marks('states')}")
    # What becomes of them is shown in the same window, and nobody touches it.
    states.person.sh("cmsfs resume; cmsfs sync; cmsfs free /Marks/synced.txt", check=False)
    wanted[-2:] = ["online", "synced"]
    states.until(lambda: states.marks("states-later") == wanted, what="the marks stay as they were")


def pins(person: Person) -> list[str]:
    found = json.loads(person.sh("cmsfs pins --json").stdout)
    return [one["path"] for one in found["items"]]


def test_file_manager_menu_pins_and_frees(notes: Files) -> None:
    window = notes.show("Notes/notes.txt")
    notes.until(lambda: notes.marks("synced") == ["synced"], what="the file is not marked as synced")
    notes.choose(window, above_the_last=3)
    notes.until(lambda: "/Notes/notes.txt" in pins(notes.person), what="the file was not pinned by the menu")
    notes.until(lambda: notes.marks("pinned") == ["pinned"], what="the pinned file has no mark of it")
    notes.choose(window, above_the_last=3)
    notes.until(lambda: "/Notes/notes.txt" not in pins(notes.person), what="the file was not let go")
    notes.until(lambda: notes.marks("freed") == ["online"], what="the freed file has no mark of it")
    (told,) = json.loads(notes.person.sh("cmsfs status --json cmsfs/Notes/notes.txt").stdout)
    assert told["cached_bytes"] == 0 < told["size"], told


def test_the_menu_copies_a_shared_link(notes: Files) -> None:
    window = notes.show("Notes/notes.txt")
    notes.until(lambda: notes.marks("unshared"), what="the file has no mark")
    notes.choose(window, above_the_last=2)
    notes.until(lambda: notes.clipboard().startswith("http"), what="there is no link in the clipboard")
    assert notes.clipboard() == notes.attribute("Notes/notes.txt", "shared_link")
    notes.screen.picture("shared")


def test_the_menu_shows_the_versions(notes: Files) -> None:
    window = notes.show("Notes/notes.txt")
    notes.until(lambda: notes.marks("unshown"), what="the file has no mark")
    notes.choose(window, above_the_last=1)
    window = notes.wait_for("Notes/notes.txt@versions/one")
    listed = notes.listed(window)
    notes.screen.picture("versions-from-the-menu")
    assert listed == notes.person.sh("ls cmsfs/Notes/notes.txt@versions").stdout.splitlines()
    # Of one second, which came first is not in the name.
    assert notes.person.sh("cat cmsfs/Notes/notes.txt@versions/* | sort -u").stdout.startswith("one\n")


def test_hanging_daemon_does_not_block_file_manager(notes: Files) -> None:
    person = notes.person
    window = notes.show("Notes/notes.txt")
    notes.until(lambda: notes.marks("before-it-hangs"), what="the file has no mark")
    daemon = person.unit("MainPID")
    person.sh(f"kill -STOP {daemon}")
    try:
        # The menu is asked for, and another folder.
        notes.press(window, "shift+F10", "Escape", "alt+Home")
        assert notes.screen.window("Home")
    finally:
        person.sh(f"kill -CONT {daemon}")
