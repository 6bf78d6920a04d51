"""The drive on a service that answers downloads by addresses in a bucket."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import faults, s3_server
from tests.support.mounted_drive import MountedDrive
from tests.support.relayed import relayed
from tests.support.served import Api, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing"),
]

MIB = 1024 * 1024


@pytest.fixture
def plan() -> faults.Plan:
    """What is asked of the bucket's server."""
    return faults.Plan()


@pytest.fixture
def service_options(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    plan: faults.Plan,
    is_apart: bool,
) -> Iterator[list[str]]:
    if is_apart:  # which are on another bucket
        with relayed(request.getfixturevalue("engines").s3.port, plan) as port:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            yield ["--redirect-downloads"]
        return
    with s3_server.running(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with relayed(int(server.url.rpartition(":")[2]), plan) as port:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            yield ["--blobs", f"s3://{s3_server.BUCKET}/drive", "--redirect-downloads"]


def test_reads_go_to_the_bucket(stopped: MountedDrive, api: Api, plan: faults.Plan) -> None:
    large, other = os.urandom(12 * MIB), os.urandom(20 * MIB)
    api.file("large.bin", large)
    api.file("other.bin", other)
    assert (stopped.top / "large.bin").read_bytes() == large
    assert plan.count("GET", "X-Amz-Signature") > 0
    with (stopped.top / "other.bin").open("rb") as file:
        for place in (17 * MIB - 5, 3, 9 * MIB):
            file.seek(place)
            assert file.read(70_000) == other[place : place + 70_000]
    # What is damaged there on the way is not what the file is: it is asked for once more.
    third = os.urandom(MIB)
    api.file("third.bin", third)
    until((stopped.top / "third.bin").exists)
    plan.add(faults.Corrupt(at=1000), method="GET", part="X-Amz-Signature")
    assert (stopped.top / "third.bin").read_bytes() == third
