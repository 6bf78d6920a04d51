"""The service in a real file manager's windows: trash, web links, searches, versions, photos."""

import json
import shlex

import pytest
from PIL import Image

from tests.support.file_manager import Files
from tests.support.machine import Person

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

BROWSER = """[Desktop Entry]
Type=Application
Name=A browser that notes where it is sent
Exec=sh -c 'echo "$0" >> "$HOME/visited"' %u
MimeType=x-scheme-handler/http;x-scheme-handler/https;
"""

# None that an emblem, an icon or a window has.
PHOTOS = {"cyan": (20, 200, 200), "magenta": (200, 20, 200), "yellow": (200, 200, 20)}
PHOTO_POINTS = 2000


def trashed(person: Person) -> dict[str, str]:
    """What is in the service's trash: id by path."""
    return {
        one["original_path"]: one["id"] for one in json.loads(person.sh("cmsfs trash list --json").stdout)
    }


def test_file_manager_trash_and_restore(files: Files) -> None:
    person = files.person
    person.sh("mkdir cmsfs/Desk; cd cmsfs/Desk; echo kept > keep.txt; echo thrown > thrown.txt; cmsfs sync")
    known = files.attribute("Desk/thrown.txt", "id")
    window = files.show("Desk/thrown.txt")
    files.until(lambda: files.marks("to-delete"), what="the files have no marks")
    files.press(window, "Delete")
    files.until(
        lambda: trashed(person).get("/Desk/thrown.txt") == known, what="it is not in the service's trash"
    )
    assert person.sh("ls cmsfs/Desk").stdout == "keep.txt\n"
    files.screen.picture("deleted")

    window = files.show(".trash/thrown.txt")
    listed = files.listed(window)
    files.screen.picture("trash")
    # One that was thrown away in the sample, too.
    assert {"thrown.txt", "First idea.md"} <= set(listed)
    assert person.sh("ls cmsfs/.trash").stdout.splitlines() == listed

    target = files.show("Desk/keep.txt")
    assert files.listed(target) == ["keep.txt"]
    assert files.cut(files.show_too(".trash/thrown.txt")) == ["thrown.txt"]
    files.press(target, "ctrl+v")
    files.until(
        lambda: person.sh("cat cmsfs/Desk/thrown.txt", check=False).stdout == "thrown\n", what="not restored"
    )
    assert files.listed(target) == ["keep.txt", "thrown.txt"]
    files.screen.picture("restored")
    assert files.attribute("Desk/thrown.txt", "id") == known
    assert "/Desk/thrown.txt" not in trashed(person)


def test_web_links_open_in_the_browser(files: Files) -> None:
    person = files.person
    person.sh(
        f"mkdir -p .local/share/applications .config; echo {shlex.quote(BROWSER)}"
        " > .local/share/applications/browser.desktop; echo '[Default Applications]' > .config/mimeapps.list;"
        "for one in http https; do echo x-scheme-handler/$one=browser.desktop; done >> .config/mimeapps.list"
    )
    window = files.show("Links/Tide table.url")
    assert files.listed(window) == ["Ferry timetable.url", "Tide table.url"]
    files.screen.picture("links")

    window = files.show("Links/Tide table.url")
    files.until(lambda: files.marks("link"), what="the links have no marks")
    files.press(window, "Return")
    files.until(lambda: visited(person), what="Enter opens nothing")
    # The other one with the pointer.
    files.screen.x("xdotool mousemove 391 200 click --repeat 2 --delay 80 1")
    files.until(lambda: len(visited(person)) == 2, what="a double click opens nothing")
    wanted = [files.attribute(f"Links/{name}.url", "url") for name in ("Tide table", "Ferry timetable")]
    assert visited(person) == wanted
    assert all(url.startswith("https://") for url in wanted)


def visited(person: Person) -> list[str]:
    return list(person.sh("cat visited", check=False).stdout.splitlines())


def test_a_search_is_a_folder_of_matches(files: Files) -> None:
    person = files.person
    found = json.loads(person.sh("cmsfs search --json harbour").stdout)
    listed = files.listed(files.show(".search/harbour/Plan.md"))
    files.screen.picture("search")
    assert listed == sorted(one["name"] for one in found)
    assert {"Plan.md", "Harbour Bridge"} <= set(listed)


def test_past_versions_are_a_folder(files: Files) -> None:
    person = files.person
    for text in ("first", "second", "third"):
        person.sh(f"mkdir -p cmsfs/Past; echo {text} > cmsfs/Past/plan.txt; cmsfs sync")
    past = person.sh("ls cmsfs/Past/plan.txt@versions").stdout.splitlines()
    listed = files.listed(files.show(f"Past/plan.txt@versions/{past[0]}"))
    files.screen.picture("versions")
    assert listed == past
    told = "cat cmsfs/Past/plan.txt@versions/* | sort"
    assert person.sh(told).stdout == "first\nsecond\n"


def requests(person: Person) -> dict[str, int]:
    return dict(json.loads(person.sh("cmsfs status --json").stdout)["requests"])


def test_photo_folder_is_shown_without_download(files: Files) -> None:
    person = files.person
    person.sh("mkdir photos; mkdir cmsfs/Photos; cmsfs sync")
    for name, colour in PHOTOS.items():
        target = person.machine.root / person.home.lstrip("/") / "photos" / f"{name}.jpg"
        Image.new("RGB", (1600, 1200), colour).save(target)
        person.sh(f"cmsfs put photos/{name}.jpg /Photos/")
    person.sh("echo 'thumbnails = true' >> .config/cmsfs/config.toml")
    restart(person)
    files.show("Photos/cyan.jpg")
    files.until(lambda: seen(files, "photos") == set(PHOTOS), what="the photos are not seen")
    # Nothing of them is here, which is what their marks say, too.
    files.until(lambda: files.marks("photos-online") == ["online"] * 3, what="they are not online only")
    asked = requests(person)
    assert asked.get("read", 0) == 0, asked
    assert asked["thumbnail"] == len(PHOTOS)

    # The same without the setting, which shows that the file manager reads what it finds no picture of.
    files.close()
    person.sh("sed -i '/^thumbnails/d' .config/cmsfs/config.toml; rm -r .cache/thumbnails")
    restart(person)
    files.show("Photos/cyan.jpg")
    files.until(lambda: seen(files, "photos-read") == set(PHOTOS), what="the photos are not seen")
    files.until(
        lambda: files.marks("photos-read") == ["synced"] * 3, what="their marks say they are not here"
    )
    asked = requests(person)
    assert asked["read"] == len(PHOTOS), asked
    assert "thumbnail" not in asked


def restart(person: Person) -> None:
    person.sh("systemctl --user restart cmsfs@default.service; ls cmsfs/Photos")


def seen(files: Files, picture: str) -> set[str]:
    """Which photos can be seen on the screen."""
    with Image.open(files.screen.picture(picture)) as image:
        data = image.convert("RGB").tobytes()
    points = list(zip(data[::3], data[1::3], data[2::3], strict=True))
    return {
        name
        for name, colour in PHOTOS.items()
        if sum(all(abs(a - b) < 12 for a, b in zip(one, colour, strict=True)) for one in points)
        > PHOTO_POINTS
    }
