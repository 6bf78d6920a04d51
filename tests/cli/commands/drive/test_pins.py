"""pin, unpin, pins: what a person keeps here."""

import json

from cmsfs.ipc import control, diagnostics

COMING = diagnostics.Pinned(path="/photos", files=4, bytes=2000, files_here=1, bytes_here=500)
UNKNOWN = diagnostics.Pinned(path="/new", listing=True)
HERE = diagnostics.Pinned(path="/a.txt", files=1, bytes=10, files_here=1, bytes_here=10)


def answering(request):
    match request:
        case control.GetPins():
            pins = diagnostics.Pinning(
                items=[COMING, UNKNOWN, HERE], listing=True, problem="It does not fit."
            )
            return [control.PinList(pins=pins)]
        case control.Pin(path="/large"):
            return [control.Failure(message="/large does not fit.")]
        case _:
            return [control.Done()]


def test_several_paths_are_pinned_and_unpinned(cmsfs, spoken_to):
    daemon = spoken_to(answering, mountpoint="/mnt/drive")
    done = cmsfs("pin", "/mnt/drive/photos", "/a.txt")
    assert done.returncode == 0
    assert "/photos is pinned" in done.stdout
    assert cmsfs("unpin", "/photos").stdout == "/photos is no longer pinned.\n"
    asked = [(request.kind, request.path) for request in daemon.requests if request.kind != "ping"]
    assert asked == [("pin", "/photos"), ("pin", "/a.txt"), ("unpin", "/photos")]
    done = cmsfs("pin", "/large")
    assert (done.returncode, done.stderr) == (1, "cmsfs: /large does not fit.\n")


def test_pins_shows_how_far_each_is(cmsfs, spoken_to):
    spoken_to(answering)
    done = cmsfs("pins")
    assert "/photos  1 of 4 files, 500 B of 2.0 kB, 25 %" in done.stdout
    assert "/a.txt   complete, 1 file, 10 B" in done.stdout
    assert "/new     0 of 0 files so far, 0 B of 0 B, being listed" in done.stdout
    assert "totals may grow" in done.stdout
    assert done.stderr == "It does not fit.\n"
    found = json.loads(cmsfs("pins", "--json").stdout)
    assert not found["complete"]
    assert [one["path"] for one in found["items"]] == ["/photos", "/new", "/a.txt"]


def test_without_pins_it_says_how_to_pin(cmsfs, spoken_to):
    spoken_to(lambda request: [control.PinList(pins=diagnostics.Pinning())])
    assert "Nothing is pinned" in cmsfs("pins").stdout
