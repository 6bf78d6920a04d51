"""Files that are made before the first bytes of their contents arrive."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cmsfs.cache.blocks import BLOCK
from tests.cache.conftest import Cache, MakeSample


async def test_a_prepared_file_is_no_content(cache: Cache, sample: MakeSample) -> None:
    content = sample(BLOCK + 17)
    cache.prepare(content.sha1, content.size)
    assert cache.absent(content) == [(0, 1)]
    assert (cache.usage(), cache.path(content.sha1)) == (0, None)
    await cache.put(content)
    cache.prepare(content.sha1, content.size)
    assert await cache.get(content) == content.data


@pytest.mark.parametrize("damage", [Path.unlink, lambda place: os.truncate(place, 5)])
async def test_a_prepared_file_that_is_damaged_is_made_anew(
    cache: Cache, sample: MakeSample, damage: Callable[[Path], None]
) -> None:
    content = sample(1000)
    cache.prepare(content.sha1, content.size)
    damage(cache.place(content.sha1, dirty=False))
    await cache.put(content)
    assert await cache.get(content) == content.data


async def test_what_cannot_be_prepared_is_told_by_the_write(cache: Cache, sample: MakeSample) -> None:
    content = sample(1000)
    place = cache.place(content.sha1, dirty=False)
    place.mkdir(parents=True)
    cache.prepare(content.sha1, content.size)
    with pytest.raises(IsADirectoryError):
        await cache.put(content)
