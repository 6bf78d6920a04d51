"""Presigned URLs: give access to one object for a short time, without credentials.

obstore can presign URLs, but not with overrides of response headers such as the file name; this is the same
signature (AWS Signature Version 4, in the query string) over a query that includes them.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

# A running download continues after this; a client that starts later requests a new URL.
LIFETIME_SECONDS = 300

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs URLs with the credentials; `base` is the URL of the objects without their keys."""

    base: str
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def sign_url(
        self, key: str, response_headers: Mapping[str, str], *, at: int, seconds: int = LIFETIME_SECONDS
    ) -> str:
        """A URL for an object, valid for `seconds` from `at` (in seconds since 1970).

        `response_headers` override headers of the response.
        """
        url = urlsplit(f"{self.base}/{quote(key, safe='/-_.~')}")
        moment = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        query = {f"response-{name}": value for name, value in response_headers.items()} | {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if self.session_token is not None:
            query["X-Amz-Security-Token"] = self.session_token
        pairs = sorted((_quoted(name), _quoted(value)) for name, value in query.items())
        query_string = "&".join(f"{name}={value}" for name, value in pairs)
        request = f"GET\n{url.path}\n{query_string}\nhost:{url.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        secret = f"AWS4{self.secret_access_key}".encode()
        for word in scope.split("/"):
            secret = hmac.digest(secret, word.encode(), "sha256")
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        return f"{url.scheme}://{url.netloc}{url.path}?{query_string}&X-Amz-Signature={signature}"


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
