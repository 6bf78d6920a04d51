"""Terms of service of an enterprise, and which users have accepted them."""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import EnterpriseMini, Model, Timestamp, UpdateBody, UserMini

Text = Annotated[str, pydantic.Field(min_length=1, max_length=60_000)]
TermsState = Literal["enabled", "disabled"]
TermsKind = Literal["managed", "external"]


class NewTerms(Model):
    status: TermsState
    text: Text
    tos_type: TermsKind = "managed"


class UpdateTerms(UpdateBody):
    status: TermsState | None = None
    text: Text | None = None


class TermsOfService(Model):
    type: Literal["terms_of_service"] = "terms_of_service"
    id: str
    status: TermsState
    enterprise: EnterpriseMini
    tos_type: TermsKind
    text: str
    created_at: Timestamp
    modified_at: Timestamp


class TermsList(Model):
    total_count: int
    entries: list[TermsOfService] = pydantic.Field(default_factory=list)


class TermsReference(Model):
    type: Literal["terms_of_service"] = "terms_of_service"
    id: str


class TermsUser(Model):
    type: Literal["user"] = "user"
    id: str


class NewTermsStatus(Model):
    tos: TermsReference
    user: TermsUser
    is_accepted: bool


class UpdateTermsStatus(UpdateBody):
    is_accepted: bool | None = None


class TermsStatus(Model):
    type: Literal["terms_of_service_user_status"] = "terms_of_service_user_status"
    id: str
    tos: TermsReference
    user: UserMini
    is_accepted: bool
    created_at: Timestamp
    modified_at: Timestamp


class TermsStatuses(Model):
    total_count: int
    entries: list[TermsStatus] = pydantic.Field(default_factory=list)
