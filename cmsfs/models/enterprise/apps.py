"""OAuth applications registered with the service."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import pydantic

from cmsfs.models.base import Model

Grant = Literal["authorization_code", "client_credentials", "jwt_bearer"]
Scope = Literal[
    "root_readonly",
    "root_readwrite",
    "manage_managed_users",
    "manage_app_users",
    "manage_groups",
    "manage_webhook",
    "manage_enterprise_properties",
    "manage_data_retention",
    "manage_legal_holds",
    "enterprise_content",
    "sign_requests.readwrite",
    "ai.readwrite",
    "manage_triggers",
]

_URI = re.compile(r"[\x21-\x7e]{1,2000}")


def _redirect(uri: str) -> str:
    parts = urlsplit(uri)
    is_web = parts.scheme in ("http", "https")
    if not _URI.fullmatch(uri) or not parts.scheme or (is_web and not parts.netloc):
        raise ValueError("must be a whole address, like https://app.example.com/callback")
    if "#" in uri or parts.scheme in ("javascript", "data", "vbscript", "file", "blob"):
        raise ValueError("must be an address that a code can be sent to")
    return uri


class NewApp(Model):
    """A new application.  `redirect_uris` are required for, and used only by, authorization codes."""

    name: Annotated[str, pydantic.Field(min_length=1, max_length=100)]
    grants: Annotated[list[Grant], pydantic.Field(min_length=1)]
    scopes: Annotated[list[Scope], pydantic.Field(min_length=1)]
    redirect_uris: Annotated[
        list[Annotated[str, pydantic.AfterValidator(_redirect)]], pydantic.Field(max_length=50)
    ] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _has_somewhere_to_go(self) -> "NewApp":
        if "authorization_code" in self.grants and not self.redirect_uris:
            raise ValueError("redirect_uris are needed for authorization codes")
        return self
