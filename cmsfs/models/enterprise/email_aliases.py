"""Further e-mail addresses of a user."""

import pydantic

from cmsfs.models.base import Model
from cmsfs.models.enterprise.users import Login


class NewEmailAlias(Model):
    email: Login


class EmailAlias(Model):
    type: str = "email_alias"
    id: str
    email: str
    is_confirmed: bool


class EmailAliases(Model):
    total_count: int
    entries: list[EmailAlias] = pydantic.Field(default_factory=list)
