"""A restored backup: the database is told that its contents are in another bucket, prefix or folder now."""

import shutil

import pytest
from click.testing import CliRunner

from cmsfs import errors
from cmsfs.cli.main import cli
from cmsfs.runtime import threads
from cmsfs.service.storage import blob_check, folder_claim, relocate, store

obstore_stores = pytest.importorskip("obstore.store")
from cmsfs.service.storage.s3 import s3_bucket  # noqa: E402

ORIGINAL, COPY = "s3://contents/main", "s3://contents/restored"


@pytest.fixture
def buckets(monkeypatch):
    """Buckets in memory, by their URLs."""
    made = {}

    def bucket(url):
        if url not in made:
            made[url] = s3_bucket.S3Bucket(url, objects=obstore_stores.MemoryStore())
        return made[url]

    shipped = s3_bucket.S3Bucket
    monkeypatch.setattr(s3_bucket, "S3Bucket", lambda url, objects=None: made_or(url, objects))

    def made_or(url, objects):
        if objects is not None:
            return shipped(url, objects=objects)
        return bucket(url)

    return bucket


def copy_all(source, target, *, without=()):
    for folder in ("blobs", "parts", "renditions"):
        for one in source.list(folder):
            target.put_new(one.key, source.get(one.key))
    if s3_bucket.OWNER_KEY not in without:
        target.put_new(s3_bucket.OWNER_KEY, source.get(s3_bucket.OWNER_KEY))


@pytest.fixture
async def filled(root, buckets, fill, as_user, on_postgres):
    """The URL of the database of a service that has a file in the bucket; None for the embedded one."""
    async with store.open_store(root, ORIGINAL) as opened:
        await fill(opened)
        await (await as_user(opened, "ann@example.com")).upload("Plan.md", b"a heron")
    return on_postgres.get(root)


async def contents_at(root, url):
    async with store.open_store(root, url) as opened:
        report = await blob_check.BlobCheck(opened, read_all=True, repair=False).run(lambda _: None)
        return report.contents, len(report.missing)


@pytest.mark.parametrize("without", [(), (s3_bucket.OWNER_KEY,)])
async def test_a_copied_bucket_is_taken_when_told(root, filled, buckets, without):
    copy_all(buckets(ORIGINAL), buckets(COPY), without=without)
    with pytest.raises(errors.UserError, match="run cmsfs service relocate"):
        await contents_at(root, COPY)
    assert await relocate.relocate(root, COPY, database_url=filled) == buckets(COPY).url
    assert await contents_at(root, COPY) == (1, 0)
    with pytest.raises(errors.UserError, match=f"are in {COPY}, not in"):
        await contents_at(root, ORIGINAL)


async def test_a_bucket_that_has_not_the_contents_is_refused(root, filled, buckets, tmp_path, fill):
    with pytest.raises(errors.UserError, match="has no contents"):
        await relocate.relocate(root, COPY, database_url=filled)
    async with store.open_store(tmp_path / "other", COPY) as opened:
        await fill(opened)
    with pytest.raises(errors.UserError, match="the contents of another store"):
        await relocate.relocate(root, COPY, database_url=filled)
    with pytest.raises(errors.UserError, match="give --blobs"):
        await relocate.relocate(root, None, database_url=filled)
    assert await contents_at(root, ORIGINAL) == (1, 0)


async def test_a_service_that_runs_is_refused(root, filled, buckets):
    copy_all(buckets(ORIGINAL), buckets(COPY))
    async with store.open_store(root, ORIGINAL):
        with pytest.raises(errors.UserError, match="stop it first"):
            await relocate.relocate(root, COPY, database_url=filled)


@pytest.mark.embedded  # it has a database of its own
async def test_a_folder_of_a_servers_database_is_taken_when_told(postgres, root, fill, as_user, tmp_path):
    url = postgres.database()
    async with store.open_store(root, database_url=url) as opened:
        await fill(opened)
        await (await as_user(opened, "ann@example.com")).upload("Plan.md", b"a heron")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    (copy / folder_claim.RECORD).unlink()
    with pytest.raises(errors.UserError, match="run cmsfs service relocate"):
        async with store.open_store(copy, database_url=url):
            raise AssertionError
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(errors.UserError, match="has no contents"):
        await relocate.relocate(empty, None, database_url=url)
    command = ["service", "relocate", "--data", str(copy), "--database", url]
    done = await threads.run_sync(CliRunner().invoke, cli, command)
    assert done.exit_code == 0, done.output
    assert f"The contents are in {copy} now." in done.output
    async with store.open_store(copy, database_url=url) as opened:
        report = await blob_check.BlobCheck(opened, read_all=True, repair=False).run(lambda _: None)
        assert (report.contents, report.missing) == (1, [])
    postgres.drop(url)


async def test_a_folder_with_its_own_database_needs_nothing(root, fill, on_postgres):
    async with store.open_store(root) as opened:
        await fill(opened)
    if root not in on_postgres:
        with pytest.raises(errors.UserError, match="beside its database"):
            await relocate.relocate(root, None, database_url=None)
    with pytest.raises(errors.UserError, match="in no bucket"):
        await relocate.relocate(root, COPY, database_url=on_postgres.get(root))
