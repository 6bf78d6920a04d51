"""A bucket of an S3-compatible service, as far as contents need one; only this module knows obstore.

Where the service is and who asks is told by the environment, in the names that all clients of S3 use
(`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`...), or by a file (`AWS_SHARED_CREDENTIALS_FILE`).

Rules: everything here blocks, so it is for threads.  An object that is not there is a `FileNotFoundError`;
whatever else the bucket or the network does is a `BlobsUnavailable`, after some tries.
"""

import configparser
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions as obstore_errors
from obstore import store as obstore_stores

from cmsfs import errors, process_env
from cmsfs.service.storage import blobs
from cmsfs.service.storage.s3 import presigned

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._-]+)*)/?")

# An upload in parts has 10,000 of them at most.
_PART = 8 * 1024 * 1024
_MOST_PARTS = 9_000

# A client waits meanwhile, and asks again when it has its 503.
TRIES: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=25)}
PATIENCE: dict[str, Any] = {"timeout": "60s", "connect_timeout": "5s"}
# Nobody waits for whether a bucket is there.
_ONE_TRY: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=2)}
_HASTE: dict[str, Any] = {"timeout": "2s", "connect_timeout": "2s"}

# The object that says whose a prefix is.
OWNER = "cmsfs.json"


_NOT_IMPLEMENTED = "501 Not Implemented"

_KEYS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a listing says of an object: its key, how long it is, and when it was put, in microseconds."""

    key: str
    size: int
    modified: int


class S3Bucket:
    """The objects of a bucket below a prefix.  Raises `UserError` for a URL that names none.

    `objects` is what obstore has them in, if not such a service.
    """

    def __init__(self, url: str, objects: Any = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            # Not said again: it may have a key in it.
            raise errors.UserError("A place for contents is like s3://bucket/prefix, and has no keys in it.")
        self.url = url.rstrip("/")
        where = found[1], found[2].strip("/")
        self._store: Any = objects or _connected(*where, TRIES, PATIENCE)
        self._hasty: Any = objects or _connected(*where, _ONE_TRY, _HASTE)

    def put_file(self, key: str, path: Path) -> None:
        """Make an object of a file, over what there may be."""
        part = max(_PART, -(-path.stat().st_size // _MOST_PARTS))
        with self._asking():
            obstore.put(self._store, key, path, chunk_size=part, max_concurrency=4)

    def put_new(self, key: str, data: bytes) -> None:
        """Make an object, unless there is one.  Not every service heeds that: what it says then counts."""
        with self._asking(), suppress(obstore_errors.AlreadyExistsError):
            try:
                obstore.put(self._store, key, data, mode="create")
            except obstore_errors.GenericError as error:
                # Some refuse what has a condition.
                if _NOT_IMPLEMENTED not in str(error):
                    raise
                try:
                    obstore.head(self._store, key)
                except FileNotFoundError:
                    obstore.put(self._store, key, data)

    def get(self, key: str) -> bytes:
        with self._asking(by_key=True):
            return bytes(obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from one to before another, all of which there are."""
        with self._asking(by_key=True):
            return bytes(obstore.get_range(self._store, key, start=start, end=end))

    def size(self, key: str) -> int:
        with self._asking(by_key=True):
            return int(obstore.head(self._store, key)["size"])

    def reach(self, key: str) -> None:
        """See that an object is there, without patience."""
        with self._asking(by_key=True):
            obstore.head(self._hasty, key)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, of which some may be gone."""
        with self._asking():
            obstore.delete(self._store, list(keys))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects below a prefix that ends where a name does."""
        with self._asking():
            for page in obstore.list(self._store, prefix):
                for one in page:
                    yield StoredObject(one["path"], one["size"], int(one["last_modified"].timestamp() * 1e6))

    def signer(self) -> presigned.Signer:
        """What signs addresses of objects.  Raises `UserError` if the keys are not known here."""
        options = settings()
        keys = {name: process_env.variable(f"AWS_{name.upper()}") for name in _KEYS} | {
            name: options[name] for name in _KEYS if name in options
        }
        if not (keys["access_key_id"] and keys["secret_access_key"]):
            said = (
                "Downloads can be redirected to the bucket with keys of the environment or of a file alone."
            )
            raise errors.UserError(said)
        # The style of the address is as obstore's requests have it.
        base, _, _ = obstore.sign(self._store, "GET", "x", timedelta(seconds=1)).partition("?")
        return presigned.Signer(base.removesuffix("/x"), options["region"], **keys)

    @contextmanager
    def _asking(self, *, by_key: bool = False) -> Iterator[None]:
        """Tell what went wrong.  What is not there is an object if one is read `by_key`, else the bucket."""
        try:
            yield
        except FileNotFoundError as error:
            if by_key:
                raise FileNotFoundError(f"{self.url} has no such content") from error
            raise self._unavailable(error) from error
        except (obstore_errors.BaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> blobs.BlobsUnavailable:
        said = str(error).partition("\n")[0][:300]
        return blobs.BlobsUnavailable(f"{self.url}: {said}")


def _connected(bucket: str, prefix: str, tries: Any, patience: dict[str, Any]) -> Any:
    options: dict[str, Any] = settings()
    speaks: Any = patience | {"allow_http": _may_speak_clear(options.get("endpoint"))}
    return obstore_stores.S3Store(
        bucket,
        prefix=prefix or None,
        client_options=speaks,
        retry_config=tries,
        # Not every service answers a deletion of several as it should.
        disable_bulk_delete=True,
        **options,
    )


def settings() -> dict[str, Any]:
    """What obstore does not find in the environment by itself."""
    endpoint = process_env.variable("AWS_ENDPOINT_URL_S3") or process_env.variable("AWS_ENDPOINT_URL")
    region = process_env.variable("AWS_REGION") or process_env.variable("AWS_DEFAULT_REGION")
    found: dict[str, Any] = {"region": region or "us-east-1"}
    if endpoint:
        found["endpoint"] = endpoint.rstrip("/")
    if not process_env.variable("AWS_ACCESS_KEY_ID"):
        found |= _keys()
    return found


def _keys() -> dict[str, str]:
    """The keys of a file of them; none: obstore asks the machine that it runs on.  Raises `UserError`."""
    named = process_env.variable("AWS_SHARED_CREDENTIALS_FILE")
    file = Path(named) if named else Path.home() / ".aws" / "credentials"
    profile = process_env.variable("AWS_PROFILE") or "default"
    parsed = configparser.ConfigParser(interpolation=None)
    try:
        text = file.read_text(encoding="utf-8")
        parsed.read_string(text)
        section = parsed[profile]
        names = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
        keys = {name: section[key] for name, key in names.items()}
    except FileNotFoundError:
        if named is None:
            return {}
        raise errors.UserError(f"{file} is not there; AWS_SHARED_CREDENTIALS_FILE names it.") from None
    except OSError as error:
        raise errors.UserError(f"{file} cannot be read: {error.strerror}.") from error
    except (KeyError, ValueError, configparser.Error):
        # What it says is secret, the line that is wrong too.
        raise errors.UserError(f"{file} has no keys of a profile {profile!r}.") from None
    if token := section.get("aws_session_token"):
        keys["session_token"] = token
    return keys


def _may_speak_clear(endpoint: str | None) -> bool:
    """Whether plain HTTP will do: on this machine, or where the administrator says so."""
    if endpoint is None or not endpoint.startswith("http://"):
        return False
    if urlsplit(endpoint).hostname in ("127.0.0.1", "::1", "localhost"):
        return True
    if (process_env.variable("AWS_ALLOW_HTTP") or "").lower() in ("1", "true"):
        return True
    said = "would have contents sent in plain text: use https, or set AWS_ALLOW_HTTP=true."
    raise errors.UserError(f"AWS_ENDPOINT_URL={endpoint} {said}")
