"""Addresses of objects that are good for a moment, without keys: requests that are signed beforehand.

obstore signs such addresses, too, but none that say how the answer is to be named; this is the same signature
(AWS Signature Version 4, in the query) over the query with that in it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

# A download that has begun goes on; a client that begins later asks the service again.
LIFETIME_SECONDS = 300

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Signer:
    """The keys, and where the objects are: `base` is the address of all, without the key of one."""

    base: str
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def address(
        self, key: str, answer: Mapping[str, str], *, at: int, seconds: int = LIFETIME_SECONDS
    ) -> str:
        """Where an object can be had from a moment on, in seconds; `answer` are headers of the answer."""
        place = urlsplit(f"{self.base}/{quote(key, safe='/-_.~')}")
        moment = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        query = {f"response-{name}": value for name, value in answer.items()} | {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if self.session_token is not None:
            query["X-Amz-Security-Token"] = self.session_token
        pairs = sorted((_quoted(name), _quoted(value)) for name, value in query.items())
        said = "&".join(f"{name}={value}" for name, value in pairs)
        request = f"GET\n{place.path}\n{said}\nhost:{place.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        secret = f"AWS4{self.secret_access_key}".encode()
        for word in scope.split("/"):
            secret = hmac.digest(secret, word.encode(), "sha256")
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        return f"{place.scheme}://{place.netloc}{place.path}?{said}&X-Amz-Signature={signature}"


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
