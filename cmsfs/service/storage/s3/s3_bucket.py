"""A bucket of an S3-compatible service; only this module uses obstore.

Endpoint and credentials come from the usual environment variables of S3 clients (`AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID`...), or from a file (`AWS_SHARED_CREDENTIALS_FILE`).

Rules: everything here blocks, so call it in threads.  A missing object is a `FileNotFoundError`; any other
failure of the bucket or the network is a `BlobsUnavailable`, after some retries.
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

# A multipart upload may have at most 10,000 parts.
_MIN_PART_SIZE = 8 * 1024 * 1024
_MAX_PARTS = 9_000

# A client waits meanwhile, and retries after a 503.
RETRY_CONFIG: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=25)}
TIMEOUTS: dict[str, Any] = {"timeout": "60s", "connect_timeout": "5s"}
# For the readiness probe, which must not wait for long.
_PROBE_RETRY_CONFIG: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=2)}
_PROBE_TIMEOUTS: dict[str, Any] = {"timeout": "2s", "connect_timeout": "2s"}

# The object with the id of the store that owns the prefix.
OWNER_KEY = "cmsfs.json"


_NOT_IMPLEMENTED = "501 Not Implemented"

_KEYS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A listing's entry for an object: key, size, and time of modification in microseconds."""

    key: str
    size: int
    modified: int


class S3Bucket:
    """The objects of a bucket below a prefix.  Raises `UserError` for an invalid URL.

    `objects` is another obstore store to use instead of S3, for tests.
    """

    def __init__(self, url: str, objects: Any = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            # The message does not repeat the URL: it may contain a key.
            raise errors.UserError(
                "The URL of a bucket is like s3://bucket/prefix, without credentials in it."
            )
        self.url = url.rstrip("/")
        where = found[1], found[2].strip("/")
        self._store: Any = objects or _connect(*where, RETRY_CONFIG, TIMEOUTS)
        self._probe_store: Any = objects or _connect(*where, _PROBE_RETRY_CONFIG, _PROBE_TIMEOUTS)

    def put_file(self, key: str, path: Path) -> None:
        """Upload a file as an object; overwrites."""
        part_size = max(_MIN_PART_SIZE, -(-path.stat().st_size // _MAX_PARTS))
        with self._translate_errors():
            obstore.put(self._store, key, path, chunk_size=part_size, max_concurrency=4)

    def put_new(self, key: str, data: bytes) -> None:
        """Create an object unless it exists.  Some services ignore the condition: read it back afterwards."""
        with self._translate_errors(), suppress(obstore_errors.AlreadyExistsError):
            try:
                obstore.put(self._store, key, data, mode="create")
            except obstore_errors.GenericError as error:
                # Some services refuse conditional requests.
                if _NOT_IMPLEMENTED not in str(error):
                    raise
                try:
                    obstore.head(self._store, key)
                except FileNotFoundError:
                    obstore.put(self._store, key, data)

    def get(self, key: str) -> bytes:
        with self._translate_errors(by_key=True):
            return bytes(obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`, which must exist."""
        with self._translate_errors(by_key=True):
            return bytes(obstore.get_range(self._store, key, start=start, end=end))

    def size(self, key: str) -> int:
        with self._translate_errors(by_key=True):
            return int(obstore.head(self._store, key)["size"])

    def probe(self, key: str) -> None:
        """Check that an object exists, with short timeouts and without retries."""
        with self._translate_errors(by_key=True):
            obstore.head(self._probe_store, key)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; some may be gone already."""
        with self._translate_errors():
            obstore.delete(self._store, list(keys))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects below a prefix of whole path segments."""
        with self._translate_errors():
            for page in obstore.list(self._store, prefix):
                for one in page:
                    yield StoredObject(one["path"], one["size"], int(one["last_modified"].timestamp() * 1e6))

    def signer(self) -> presigned.Signer:
        """The signer of presigned URLs.  Raises `UserError` if the credentials are not known here."""
        options = settings()
        keys = {name: process_env.variable(f"AWS_{name.upper()}") for name in _KEYS} | {
            name: options[name] for name in _KEYS if name in options
        }
        if not (keys["access_key_id"] and keys["secret_access_key"]):
            message = "Redirecting downloads to the bucket needs credentials from the environment or a file."
            raise errors.UserError(message)
        # Take the URL style (path or virtual host) from a URL that obstore signs.
        base, _, _ = obstore.sign(self._store, "GET", "x", timedelta(seconds=1)).partition("?")
        return presigned.Signer(base.removesuffix("/x"), options["region"], **keys)

    @contextmanager
    def _translate_errors(self, *, by_key: bool = False) -> Iterator[None]:
        """Translate errors.  "Not found" means a missing object if `by_key`, else a missing bucket."""
        try:
            yield
        except FileNotFoundError as error:
            if by_key:
                raise FileNotFoundError(f"{self.url} has no such content") from error
            raise self._unavailable(error) from error
        except (obstore_errors.BaseError, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> blobs.BlobsUnavailable:
        message = str(error).partition("\n")[0][:300]
        return blobs.BlobsUnavailable(f"{self.url}: {message}")


def _connect(bucket: str, prefix: str, retry_config: Any, timeouts: dict[str, Any]) -> Any:
    options: dict[str, Any] = settings()
    client_options: Any = timeouts | {"allow_http": _allows_plain_http(options.get("endpoint"))}
    return obstore_stores.S3Store(
        bucket,
        prefix=prefix or None,
        client_options=client_options,
        retry_config=retry_config,
        # Not every service implements bulk deletion correctly.
        disable_bulk_delete=True,
        **options,
    )


def settings() -> dict[str, Any]:
    """The settings that obstore does not read from the environment itself."""
    endpoint = process_env.variable("AWS_ENDPOINT_URL_S3") or process_env.variable("AWS_ENDPOINT_URL")
    region = process_env.variable("AWS_REGION") or process_env.variable("AWS_DEFAULT_REGION")
    found: dict[str, Any] = {"region": region or "us-east-1"}
    if endpoint:
        found["endpoint"] = endpoint.rstrip("/")
    if not process_env.variable("AWS_ACCESS_KEY_ID"):
        found |= _file_credentials()
    return found


def _file_credentials() -> dict[str, str]:
    """The credentials from a file; if there is none, obstore asks the machine.  Raises `UserError`."""
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
        # The message quotes nothing of the file: it is secret.
        raise errors.UserError(f"{file} has no keys of a profile {profile!r}.") from None
    if token := section.get("aws_session_token"):
        keys["session_token"] = token
    return keys


def _allows_plain_http(endpoint: str | None) -> bool:
    """Whether to use plain HTTP: on loopback, or with AWS_ALLOW_HTTP.  Raises `UserError` elsewhere."""
    if endpoint is None or not endpoint.startswith("http://"):
        return False
    if urlsplit(endpoint).hostname in ("127.0.0.1", "::1", "localhost"):
        return True
    if (process_env.variable("AWS_ALLOW_HTTP") or "").lower() in ("1", "true"):
        return True
    message = "would have contents sent in plain text: use https, or set AWS_ALLOW_HTTP=true."
    raise errors.UserError(f"AWS_ENDPOINT_URL={endpoint} {message}")
