"""Buffers of reads are used again, but never while somebody has one."""

import os

from cmsfs.cache import content_files

LENGTH = content_files._buffers.length


def test_buffers_are_used_again():
    buffers = content_files.ReadBuffers(100)
    first = buffers.take()
    identity = id(first)
    del first
    assert id(buffers.take()) == identity


def test_what_somebody_has_is_left_alone():
    buffers = content_files.ReadBuffers(100, most=2)
    whole = buffers.take()
    view = memoryview(buffers.take())[10:20]
    kept = [buffers.take() for _ in range(5)]
    assert len({id(one) for one in (whole, view.obj, *kept)}) == 7
    kept.clear()
    again = buffers.take()
    assert again is not whole
    assert again is not view.obj


def test_reads_keep_their_bytes(tmp_path):
    path = tmp_path / "content"
    data = os.urandom(10 * LENGTH)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        found = [content_files.read_now(fd, at, LENGTH) for at in range(0, len(data), LENGTH)]
        if None not in found:  # where the file system can tell what is in memory
            assert b"".join(found) == data
        for at in range(0, len(data), LENGTH):
            assert content_files.read_now(fd, at, LENGTH) in (None, data[at : at + LENGTH])
    finally:
        os.close(fd)
