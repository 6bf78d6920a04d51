"""conflicts, retry, discard: what a person sees and decides."""

import json
from datetime import UTC, datetime

from cmsfs.ipc import attention, control

COPY = attention.ConflictCopyStatus(
    path="/a (conflicted copy of host, 2026-11-21).txt",
    original="/a.txt",
    modified=datetime(2026, 11, 21, tzinfo=UTC),
)
HELD = attention.PendingChange(
    seq=1, kind="upload", path="/b.bin", state="held", error="There is no space left."
)


def answering(request):
    match request:
        case control.GetConflicts():
            return [control.Conflicts(copies=[COPY], held=[HELD])]
        case control.Retry(path="/none"):
            return [control.Failure(message="No rejected change of /none to retry.")]
        case control.Discard():
            return [control.Done(message="Its bytes are kept in /home/ada/recovered/b.bin.")]
        case _:
            return [control.Done()]


def test_conflicts_lists_copies_and_refusals(cmsfs, spoken_to):
    spoken_to(answering)
    done = cmsfs("conflicts")
    assert done.returncode == 0
    assert "/a (conflicted copy of host, 2026-11-21).txt" in done.stdout
    assert "beside /a.txt" in done.stdout
    assert "/b.bin" in done.stdout
    assert "There is no space left." in done.stdout
    found = json.loads(cmsfs("conflicts", "--json").stdout)
    assert [len(found["copies"]), len(found["held"])] == [1, 1]


def test_recovered_files_are_listed_until_dismissed(cmsfs, spoken_to):
    kept = attention.RecoveredFile(
        path="/home/ada/recovered/plan.txt", bytes=2000, modified=datetime(2026, 11, 21, tzinfo=UTC)
    )
    daemon = spoken_to(
        lambda request: [
            control.Conflicts(recovered=[kept])
            if isinstance(request, control.GetConflicts)
            else control.Done(message="1 recovered files are kept in /home/ada/recovered.")
        ]
    )
    done = cmsfs("conflicts")
    assert "/home/ada/recovered/plan.txt" in done.stdout
    assert "--dismiss-recovered" in done.stdout
    assert "are kept in /home/ada/recovered" in cmsfs("conflicts", "--dismiss-recovered").stdout
    assert any(isinstance(one, control.DismissRecovered) for one in daemon.requests)


def test_no_conflicts_is_said(cmsfs, spoken_to):
    spoken_to(lambda request: [control.Conflicts()])
    assert cmsfs("conflicts").stdout == "Nothing needs your attention.\n"


def test_path_may_be_local_or_drive(cmsfs, spoken_to):
    daemon = spoken_to(answering, mountpoint="/mnt/drive")
    assert cmsfs("retry", "/mnt/drive/x/../b.bin").returncode == 0
    assert cmsfs("retry", "/b.bin").returncode == 0
    assert cmsfs("retry").returncode == 0
    asked = [request for request in daemon.requests if isinstance(request, control.Retry)]
    assert [request.path for request in asked] == ["/b.bin", "/b.bin", None]
    done = cmsfs("retry", "elsewhere/b.bin")
    assert done.returncode == 1
    assert "is not below /mnt/drive" in done.stderr
    done = cmsfs("retry", "/none")
    assert (done.returncode, done.stderr) == (1, "cmsfs: No rejected change of /none to retry.\n")


def test_discard_asks_first_and_tells_where_the_bytes_are(cmsfs, spoken_to):
    daemon = spoken_to(answering)
    done = cmsfs("discard", "/b.bin")
    assert done.returncode != 0
    assert not [request for request in daemon.requests if isinstance(request, control.Discard)]
    done = cmsfs("discard", "--yes", "/b.bin")
    assert done.returncode == 0
    assert done.stdout == (
        "Discarded the change of /b.bin. Its bytes are kept in /home/ada/recovered/b.bin.\n"
    )


def test_without_a_drive_it_is_one_sentence(cmsfs):
    for arguments in (["conflicts"], ["retry"], ["discard", "--yes", "/x"]):
        done = cmsfs(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_what_is_missing_is_listed_and_decided(cmsfs, spoken_to):
    told = attention.Missing(items=1234, asked=datetime(2026, 11, 21, tzinfo=UTC), paths=["/docs", "/f"])
    daemon = spoken_to(
        lambda request: [
            control.Conflicts(missing=told)
            if isinstance(request, control.GetConflicts)
            else control.Done(message="1,234 items were removed." if request.remove else "")
        ]
    )
    assert "1,234 items missing at the service" in cmsfs("conflicts").stdout
    done = cmsfs("missing")
    assert "1,234 items" in done.stdout
    assert "/docs" in done.stdout
    assert "--remove" in done.stdout
    assert json.loads(cmsfs("missing", "--json").stdout)["items"] == 1234
    assert cmsfs("missing", "--remove").stdout == "1,234 items were removed.\n"
    assert cmsfs("missing", "--keep").stdout == "Kept locally.\n"
    assert cmsfs("missing", "--keep", "--remove").returncode == 2
    said = [one for one in daemon.requests if isinstance(one, control.DecideMissing)]
    assert [one.remove for one in said] == [True, False]


def test_what_the_guard_holds_is_shown_and_allowed(cmsfs, spoken_to):
    since = datetime(2026, 11, 21, tzinfo=UTC)
    programs = [attention.GuardProgram(name="evil.py", pid=7, files=31)]
    told = attention.GuardNotice(
        since=since, spoiled=31, suffix="locked", folder="/docs", programs=programs, waiting=970
    )
    daemon = spoken_to(
        lambda request: [
            control.Conflicts(guard=told) if isinstance(request, control.GetConflicts) else control.Done()
        ]
    )
    done = cmsfs("guard").stdout
    assert "evil.py has encrypted or renamed 31 files (now .locked) below /docs" in done
    assert "970 changes held" in done
    assert "process 7" in done
    assert "guard undo" in done
    assert json.loads(cmsfs("guard", "--json").stdout)["spoiled"] == 31
    assert cmsfs("guard", "allow").stdout == "The changes are uploaded now.\n"
    assert [one.kind for one in daemon.requests][-1] == "allow-changes"


def test_nothing_missing_is_said(cmsfs, spoken_to):
    spoken_to(lambda request: [control.Conflicts()])
    assert cmsfs("missing").stdout == "Nothing is missing at the service.\n"
    assert cmsfs("guard").stdout == "Nothing was noticed; changes are uploaded.\n"


def test_what_others_share_is_listed_and_decided(cmsfs, spoken_to):
    told = [
        attention.OfferStatus(type="folder", id="17", name="Team", owner="Ben"),
        attention.OfferStatus(type="file", id="18", name="plan.txt", owner="Ben", declined=True),
    ]
    daemon = spoken_to(
        lambda request: [
            control.Conflicts(offers=told)
            if isinstance(request, control.GetConflicts)
            else control.Done(message="Team is in /Shared with me/Team.")
        ]
    )
    assert "1 item shared with you and not accepted yet" in cmsfs("conflicts").stdout
    lines = cmsfs("shared").stdout.splitlines()
    assert lines[0].split() == ["17", "folder", "Team", "from", "Ben"]
    assert lines[1].split()[-1] == "declined"
    assert [one["id"] for one in json.loads(cmsfs("shared", "--json").stdout)] == ["17", "18"]
    assert cmsfs("shared", "--accept", "Team").stdout == "Team is in /Shared with me/Team.\n"
    cmsfs("shared", "--decline", "17", "--decline", "18")
    said = [one for one in daemon.requests if isinstance(one, control.DecideOffers)]
    assert [(one.words, one.accept) for one in said] == [(["Team"], True), (["17", "18"], False)]


def test_nothing_offered_is_said(cmsfs, spoken_to):
    spoken_to(lambda request: [control.Conflicts()])
    assert cmsfs("shared").stdout == "No shared items are waiting to be accepted.\n"
