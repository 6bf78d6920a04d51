"""free: what a person wants off this disk."""

import json

from cmsfs.ipc import control


def answering(request):
    match request:
        case control.Free(path="/kept", unpin=False):
            return [control.Failure(message="/kept is pinned.")]
        case control.Free(path="/kept"):
            return [control.Progress(pending=0), control.Freed(files=1200, bytes=34_500_000)]
        case control.Free(path="/here"):
            return [control.Freed(unsent=1, pinned=2, in_use=3)]
        case _:
            return [control.Freed()]


def test_free_reports_freed_and_kept(cmsfs, spoken_to):
    spoken_to(answering, mountpoint="/mnt/drive")
    done = cmsfs("free", "--unpin", "/mnt/drive/kept", "/here", "/none")
    assert done.stdout == (
        "/kept: 34.5 MB freed, 1,200 files online only.\n"
        "/here: nothing to free. Kept: 1 pending upload, 2 pinned, 3 in use.\n"
        "/none: nothing to free.\n"
    )
    assert done.returncode == 0


def test_pins_end_only_on_demand(cmsfs, spoken_to):
    daemon = spoken_to(answering)
    done = cmsfs("free", "/kept")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "cmsfs: /kept is pinned.\n")
    found = json.loads(cmsfs("free", "--json", "--unpin", "/kept").stdout)
    kept = {"path": "/kept", "files": 1200, "bytes": 34_500_000, "unsent": 0, "pinned": 0, "in_use": 0}
    assert found == [kept]
    assert [request.unpin for request in daemon.requests if request.kind == "free"] == [False, True]
