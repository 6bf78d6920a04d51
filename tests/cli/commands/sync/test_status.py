"""status of items and as it goes; pause, resume, log-level."""

import json
from datetime import UTC, datetime

import pytest

from cmsfs.cli.support import status_watch
from cmsfs.ipc import attention, control, diagnostics

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FULL = control.DriveStatus(
    account="default",
    profile="Embedded service",
    mountpoint="/mnt/drive",
    pid=1,
    version="0.1.0",
    started=NOW,
    health=diagnostics.HealthStatus(state="paused", since=NOW, reason="Resumes at 13:00."),
    queue=control.QueueStatus(
        running=1,
        bytes_pending=100,
        ops=[attention.PendingChange(seq=1, kind="upload", path="/big", state="running", size=100, sent=25)],
    ),
    listing=diagnostics.ListingStatus(state="running", items=10, total=40),
    pins=diagnostics.Pinning(
        items=[diagnostics.Pinned(path="/p", files=4, bytes=40, files_here=1, bytes_here=10)]
    ),
    budget=diagnostics.SchedulerStatus(
        held_up_seconds=3, queues={"pin": diagnostics.Turns(waiting=7, running=2)}
    ),
    troubles=diagnostics.Troubles(came_wrong=["/film.mkv"]),
)
ITEMS = {
    "/far": control.PathStatus(path="/far", type="file", sync="synced", size=2000),
    "/half": control.PathStatus(path="/half", type="file", sync="synced", size=2000, cached_bytes=1000),
    "/p": control.PathStatus(path="/p", type="folder", sync="synced", pinned="/p"),
    "/p/c": control.PathStatus(
        path="/p/c", type="file", sync="waiting", size=10, cached_bytes=10, pinned="/p", conflict=True
    ),
}


def answering(request):
    match request:
        case control.Watch():
            return [FULL, FULL, FULL.model_copy(update={"queue": control.QueueStatus()})]
        case control.GetStatus():
            return [FULL]
        case control.GetPathStatus():
            return [ITEMS.get(request.path, control.Failure(message="There is no such thing."))]
        case _:
            return [control.Done()]


@pytest.mark.parametrize(
    ("installed", "told"), [("", ""), ("0.2.0", "0.2.0 is installed; `"), ("none", "not installed any more")]
)
def test_status_tells_of_a_newer_version(cmsfs, spoken_to, installed, told):
    spoken_to(lambda _: [FULL.model_copy(update={"installed": installed})])
    shown = cmsfs("status").stdout
    assert told in shown
    assert ("upgrade" in shown) is bool(installed)


def test_status_shows_pins_and_queue_order(cmsfs, spoken_to):
    spoken_to(answering)
    shown = cmsfs("status").stdout
    assert "/mnt/drive: paused" in shown
    assert "Resumes at 13:00." in shown
    assert "1 of 4 files, 10 B of 40 B" in shown
    assert "retrying in 3 s; pin 2 running, 7 queued" in shown
    assert "corrupt     /film.mkv: the download does not match its SHA-1" in shown


def test_items_are_told_one_by_one(cmsfs, spoken_to):
    spoken_to(answering)
    done = cmsfs("status", "/far", "/half", "/p", "/p/c")
    assert done.stdout.splitlines() == [
        "/far   synced, online only, 2.0 kB",
        "/half  synced, 50 % of 2.0 kB here",
        "/p     synced, pinned",
        "/p/c   waiting, conflict copy, pinned with /p, 10 B, downloaded",
    ]
    found = json.loads(cmsfs("status", "--json", "/p/c").stdout)
    assert [found[0]["sync"], found[0]["conflict"], found[0]["cached_bytes"]] == ["waiting", True, 10]
    done = cmsfs("status", "/none")
    assert (done.returncode, done.stderr) == (1, "cmsfs: There is no such thing.\n")


def test_watching_in_a_pipe_tells_of_changes(cmsfs, spoken_to):
    spoken_to(answering)
    lines = cmsfs("status", "--watch").stdout.splitlines()
    assert lines == [
        "/mnt/drive: paused; 1 running, 100 B to go",
        "/mnt/drive: paused; all uploaded",
    ]
    documents = [json.loads(line) for line in cmsfs("status", "--watch", "--json").stdout.splitlines()]
    assert [len(one["queue"]["ops"]) for one in documents] == [1, 1, 0]


def test_what_has_an_end_has_a_bar():
    from rich import console

    screen = console.Console(width=100, file=None, record=True, quiet=True)
    screen.quiet = False
    with screen.capture() as captured:
        screen.print(status_watch.page(FULL))
    text = captured.get()
    assert "/big" in text
    assert "25 B of 100 B" in text
    assert "/p (pinned)" in text
    assert "10 of 40 items" in text


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400)],
)
def test_a_pause_may_have_an_end(cmsfs, spoken_to, given, seconds):
    daemon = spoken_to(answering)
    done = cmsfs("pause", "--for", given)
    assert done.stdout == "Paused. Resumes at 13:00.\n"
    assert [r.seconds for r in daemon.requests if isinstance(r, control.Pause)] == [seconds]


@pytest.mark.parametrize("given", ["", "x", "1x", "h", "0", "1h-2"])
def test_what_is_no_time_is_refused(cmsfs, spoken_to, given):
    spoken_to(answering)
    done = cmsfs("pause", "--for", given)
    assert done.returncode == 2
    assert "is not a duration" in done.stderr


def test_resume_and_log_level(cmsfs, spoken_to):
    daemon = spoken_to(answering)
    assert cmsfs("resume").stdout == "Sync resumed.\n"
    assert cmsfs("log-level", "debug").stdout == "Log level set to DEBUG.\n"
    assert [r.kind for r in daemon.requests if r.kind not in ("ping",)] == ["resume", "log-level"]
    assert cmsfs("log-level", "loud").returncode == 2
