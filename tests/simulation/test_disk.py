import random
from pathlib import Path

from tests.simulation.disk import PAGE, WAL_HEADER, Disks


def test_header_of_restarted_log_survives_power_cuts(tmp_path: Path) -> None:
    disks, state = Disks(), tmp_path / "state"
    state.mkdir()
    disks.add(state)
    wal = state / "replica.db-wal"
    wal.write_bytes(b"o" * 3 * PAGE)
    disks.record_synced(wal)
    wal.write_bytes(b"n" * 3 * PAGE)
    rests = set()
    for seed in range(20):
        disks.copy_survivors(state, tmp_path / str(seed), random.Random(seed))
        survived = (tmp_path / str(seed) / wal.name).read_bytes()
        assert survived[:WAL_HEADER] == b"n" * WAL_HEADER
        rests.add(survived[WAL_HEADER:])
    disks.close()
    assert len(rests) > 2  # the frames behind it survive by chance
