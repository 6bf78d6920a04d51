"""LibreOffice on a real mount: whose lock it finds, what it says of that, and the lock that it makes."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until
from tests.support.served import Api

OFFICE = shutil.which("soffice")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed"),
]

# Opens a document, says whether it can be changed, and closes it once a file is gone.
MACRO = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE script:module PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "module.dtd">
<script:module xmlns:script="http://openoffice.org/2000/script" script:name="Module1"
 script:language="StarBasic">
Sub Look(target As String, result As String)
  Dim hidden(0) As New com.sun.star.beans.PropertyValue
  hidden(0).Name = "Hidden"
  hidden(0).Value = True
  document = StarDesktop.loadComponentFromURL(target, "_blank", 0, hidden())
  number = FreeFile
  Open result For Output As #number
  Print #number, document.isReadonly()
  Close #number
  Do While FileExists(result)
    Wait 100
  Loop
  document.close(True)
  StarDesktop.terminate()
End Sub
</script:module>
"""
LIBRARY = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE library:library PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "library.dtd">
<library:library xmlns:library="http://openoffice.org/2000/library" library:name="Standard"
 library:readonly="false" library:passwordprotected="false"><library:element library:name="Module1"/>
</library:library>
"""


@pytest.fixture
def looking(tmp_path: Path) -> Callable[[Path, Callable[[], None]], str]:
    """`looking(document, meanwhile)`: what LibreOffice says of whether it is read-only."""
    assert OFFICE is not None
    profile = tmp_path / "profile"
    office = [OFFICE, "--headless", "--norestore", f"-env:UserInstallation=file://{profile}"]
    # Its first start fills the profile.
    (tmp_path / "plan.txt").write_text("the plan\n")
    convert = [*office, "--convert-to", "odt", "--outdir", str(tmp_path), str(tmp_path / "plan.txt")]
    subprocess.run(convert, check=True, timeout=200, capture_output=True)
    basic = profile / "user/basic/Standard"
    (basic / "Module1.xba").write_text(MACRO)
    (basic / "script.xlb").write_text(LIBRARY)

    def look(document: Path, meanwhile: Callable[[], None] = lambda: None) -> str:
        result = tmp_path / "result"
        command = [*office, f"macro:///Standard.Module1.Look({document.as_uri()},{result})"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            try:
                until(lambda: result.exists() and result.read_text().strip() != "", 60, "nothing was opened")
                said = result.read_text().strip()
                meanwhile()
                result.unlink()
                running.wait(60)
            finally:
                running.kill()
        return said

    return look


def test_what_somebody_else_has_locked_opens_read_only_and_names_them(
    stopped: MountedDrive, api: Api, looking: Callable[..., str], tmp_path: Path
) -> None:
    cy = api.colleague()
    folder = cy.folder("box")
    number = cy.file("plan.odt", (tmp_path / "plan.odt").read_bytes(), folder)
    cy.share("folder", folder, api.user)
    document = stopped.top / "Shared with me" / "box" / "plan.odt"
    until(document.exists, 60, "the document is not shared")
    assert looking(document) == "False"
    cy.update("file", number, lock={"type": "lock"})
    until(lambda: not os.access(document, os.W_OK) or not document.stat().st_mode & 0o200, 60, "not locked")
    assert "Cy Tester" in (document.parent / ".~lock.plan.odt#").read_text()
    assert looking(document) == "True"
    cy.close()


@pytest.fixture
def screen() -> Iterator[dict[str, str]]:
    """The environment of programs on a screen of their own."""
    if not all(map(shutil.which, ("Xvfb", "openbox", "xdotool"))):
        pytest.skip("there is no screen: Xvfb, openbox and xdotool are not installed")
    read, write = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1000x700x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    ) as running:
        os.close(write)
        with os.fdopen(read) as told:
            number = told.readline().strip()
        env = {**os.environ, "DISPLAY": f":{number}", "LC_ALL": "C.UTF-8"}
        with subprocess.Popen(["openbox"], env=env, stderr=subprocess.DEVNULL) as manager:
            try:
                yield env
            finally:
                manager.terminate()
                running.terminate()


def test_the_dialog_offers_a_copy_and_tells_when_the_document_is_free(
    stopped: MountedDrive,
    api: Api,
    looking: Callable[..., str],
    tmp_path: Path,
    screen: dict[str, str],
) -> None:
    assert OFFICE is not None
    cy = api.colleague()
    folder = cy.folder("box")
    number = cy.file("plan für cy.odt", (tmp_path / "plan.odt").read_bytes(), folder)
    cy.share("folder", folder, api.user)
    cy.update("file", number, lock={"type": "lock"})
    document = stopped.top / "Shared with me" / "box" / "plan für cy.odt"
    until(lambda: document.exists() and not document.stat().st_mode & 0o200, 60, "it is not shared or locked")

    def windows(title: str) -> list[str]:
        command = ["xdotool", "search", "--onlyvisible", "--name", title]
        found = subprocess.run(command, env=screen, capture_output=True, text=True, check=False)
        return found.stdout.split()

    def shows(title: str) -> str:
        until(lambda: windows(title) != [], 120, f"no window {title}")
        return windows(title)[0]

    profile = f"-env:UserInstallation=file://{tmp_path / 'profile'}"
    command = [OFFICE, "--norestore", "--nologo", profile, str(document)]
    with subprocess.Popen(command, env=screen, start_new_session=True) as running:
        try:
            dialog = shows("Document in Use")
            # Notify: it opens read-only, and LibreOffice looks at the lock once a minute.
            pressed = ["xdotool", "windowactivate", "--sync", dialog, "key", "alt+n"]
            subprocess.run(pressed, env=screen, check=True, timeout=60)
            shows("read-only")
            assert not (document.parent / ".~lock.plan für cy.odt#").stat().st_mode & 0o200
            cy.update("file", number, lock=None)
            shows("Document is now editable")
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # a script, and the program that it has started
    cy.close()
