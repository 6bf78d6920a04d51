"""Parses the enterprise file: a TOML of users, apps and contents to create when the service starts.

`enterprise.example.toml` beside this module shows and explains every table.  What is said here is what a
person types; provisioning.py turns it into rows.

Rule: whatever is wrong with a file is one sentence that names the file and the key.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from cmsfs import config, errors, process_env
from cmsfs.models import wire_names
from cmsfs.models.base import RequestTimestamp
from cmsfs.models.content import metadata
from cmsfs.models.enterprise import groups as models_groups
from cmsfs.models.enterprise import retention, users
from cmsfs.service.access import roles, scopes
from cmsfs.service.oauth import clients

Text = Annotated[str, pydantic.Field(min_length=1, max_length=254)]
Days = Annotated[int, pydantic.Field(ge=1, le=retention.MAX_DAYS)]


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class About(_Table):
    name: Text
    trash_days: Days | Literal["never"] = 30  # `never`: the trash is not emptied by itself
    tracking_codes: list[Text] = []


class ProvisionedSecret(_Table):
    """One of: the secret itself, the name of a file that holds it, or of a variable of the environment."""

    value: str | None = None
    file: Path | None = None
    env: str | None = None

    @pydantic.model_validator(mode="after")
    def _is_one(self) -> "ProvisionedSecret":
        if sum(one is not None for one in (self.value, self.file, self.env)) != 1:
            raise ValueError("must have one of value, file and env")
        return self


def _secret(given: Any) -> Any:
    return {"value": given} if isinstance(given, str) else given


AnySecret = Annotated[ProvisionedSecret, pydantic.BeforeValidator(_secret)]


class ProvisionedUser(_Table):
    login: users.Login
    name: users.Name
    role: Literal["admin", "coadmin", "user"] = "user"
    password: AnySecret | None = None
    status: users.Status = "active"
    space_amount: users.Space | None = None
    max_upload_size: users.Space | None = None
    job_title: users.Short | None = None
    phone: users.Short | None = None
    address: users.Address | None = None
    language: users.Language | None = None
    enterprise_content: bool | None = None  # may search everybody's content; admins may, others may not


class ProvisionedKey(_Table):
    kid: Text
    file: Path


class ProvisionedSignature(_Table):
    """The keys that an application's webhooks are signed with."""

    primary: AnySecret
    secondary: AnySecret


def _known(value: str, choices: Any, what: str) -> str:
    if value not in choices:
        raise ValueError(f"{value!r} is no {what}{config.hint(value, choices)}")
    return value


class ProvisionedApp(_Table):
    client_id: Annotated[str, pydantic.Field(pattern=r"^[\x21-\x7e]+$", max_length=254)]
    client_secret: AnySecret
    name: Text
    grants: list[
        Annotated[str, pydantic.AfterValidator(lambda one: _known(one, clients.GRANTS, "grant"))]
    ] = ["client_credentials"]
    scopes: list[Annotated[str, pydantic.AfterValidator(lambda one: _known(one, scopes.KNOWN, "scope"))]] = [
        "root_readwrite"
    ]
    redirect_uris: list[Text] = []
    public_keys: list[ProvisionedKey] = []
    signature_keys: ProvisionedSignature | None = None  # of its webhooks
    service_user: str | None = None  # a login; none: a user of the application's own


def _path(value: str) -> str:
    for part in value.split("/"):
        if not part or wire_names.name_problem(part):
            raise ValueError(f"{value!r} is no path of folders: 'Projects/Bridge'")
    return value


FolderPath = Annotated[str, pydantic.AfterValidator(_path)]


class ProvisionedMember(_Table):
    login: str
    role: models_groups.MemberRole = "member"


class ProvisionedGroup(_Table):
    name: models_groups.GroupName
    description: models_groups.ShortText = ""
    invitability_level: models_groups.Level | None = None
    member_viewability_level: models_groups.Level | None = None
    members: list[ProvisionedMember] = []


class ProvisionedCollaborator(_Table):
    """A user by login, or a group by name."""

    login: str | None = None
    group: str | None = None
    role: Annotated[str, pydantic.AfterValidator(lambda one: _known(one, roles.ROLES, "role"))]

    @pydantic.model_validator(mode="after")
    def _is_one(self) -> "ProvisionedCollaborator":
        if (self.login is None) == (self.group is None):
            raise ValueError("must have one of login and group")
        return self


class ProvisionedFolder(_Table):
    owner: str
    path: FolderPath
    description: Annotated[str, pydantic.Field(max_length=256)] = ""
    collaborators: list[ProvisionedCollaborator] = []


class ProvisionedField(_Table):
    key: metadata.Key
    type: metadata.FieldType = "string"
    display_name: metadata.DisplayName | None = None
    options: list[Text] = []


class ProvisionedTemplate(_Table):
    key: metadata.TemplateKey
    display_name: metadata.DisplayName
    hidden: bool = False
    copy_with_item: bool = False
    fields: list[ProvisionedField] = []


class ProvisionedTarget(_Table):
    """A folder by owner and path, a user by login, a template by key, or the whole enterprise."""

    type: Literal["folder", "user", "ownership", "interactions", "enterprise", "metadata_template"]
    owner: str | None = None
    path: FolderPath | None = None
    login: str | None = None
    key: str | None = None

    @pydantic.model_validator(mode="after")
    def _names_its_target(self) -> "ProvisionedTarget":
        needed = {"folder": ("owner", "path"), "enterprise": (), "metadata_template": ("key",)}
        for name in needed.get(self.type, ("login",)):
            if getattr(self, name) is None:
                raise ValueError(f"of type {self.type} needs {name}")
        return self


class ProvisionedHold(_Table):
    name: Text
    description: Annotated[str, pydantic.Field(max_length=500)] = ""
    filter_started_at: RequestTimestamp | None = None
    filter_ended_at: RequestTimestamp | None = None
    assignments: list[ProvisionedTarget] = []


class ProvisionedRetention(_Table):
    name: Text
    days: Days | Literal["indefinite"]
    disposition_action: retention.Action = "remove_retention"
    modifiable: bool = True
    description: Annotated[str, pydantic.Field(max_length=500)] = ""
    assignments: list[ProvisionedTarget] = []


class ProvisionedExemption(_Table):
    login: str


class ProvisionedStorage(_Table):
    name: Text


class Enterprise(_Table):
    """All of a file, and where it is."""

    file: Path
    enterprise: About
    users: list[ProvisionedUser]
    apps: list[ProvisionedApp] = []
    groups: list[ProvisionedGroup] = []
    folders: list[ProvisionedFolder] = []
    templates: list[ProvisionedTemplate] = []
    legal_holds: list[ProvisionedHold] = []
    retention_policies: list[ProvisionedRetention] = []
    exemptions: list[ProvisionedExemption] = []
    storage_policies: list[ProvisionedStorage] = []

    @pydantic.model_validator(mode="after")
    def _has_an_administrator(self) -> "Enterprise":
        if not any(user.role == "admin" for user in self.users):
            raise ValueError("one of the users must have the role admin")
        return self

    def read(self, path: Path, where: str) -> str:
        """A file that the file names, beside it unless the path is whole.  Raises `ConfigError`."""
        try:
            return (self.file.parent / path.expanduser()).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.wrong(where, f"{path} cannot be read: {_said(error)}") from None

    def reveal(self, secret: ProvisionedSecret, where: str) -> str:
        """A secret.  Raises `ConfigError` if it is not where it should be."""
        if secret.file is not None:
            found: str | None = self.read(secret.file, where).strip()
        elif secret.env is not None:
            found = process_env.variable(secret.env)
        else:
            found = secret.value
        if not found:
            said = f"the variable {secret.env} is not set" if secret.env else "the secret is empty"
            raise self.wrong(where, said)
        return found

    def wrong(self, where: str, said: str) -> errors.ConfigError:
        """One sentence about one key."""
        return errors.ConfigError(f"{self.file}: {where}: {said}.")


def load(path: Path) -> Enterprise:
    """The file, checked by itself.  Raises `ConfigError`."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The enterprise file {path} cannot be read: {_said(error)}.") from None
    except tomllib.TOMLDecodeError as error:
        raise errors.ConfigError(f"The enterprise file {path} is not TOML: {error}.") from None
    values.pop("file", None)
    try:
        return Enterprise.model_validate(values | {"file": path})
    except pydantic.ValidationError as error:
        # An unknown key first: the one that is missing is often the one that was misspelt.
        found = error.errors(include_url=False)
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        said = _sentence(first)
        raise errors.ConfigError(f"{path}: {said}{'' if said.endswith('?') else '.'}") from None


def _said(error: OSError | UnicodeDecodeError) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _sentence(error: Any) -> str:
    """What is wrong, beginning with the key."""
    where = ""
    for part in error["loc"]:
        where += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if where else str(part)
    if error["type"] == "extra_forbidden":
        known = _keys(error["loc"][:-1])
        return f"{where} is not known{config.hint(str(error['loc'][-1]), known)}"
    said = error["msg"].removeprefix("Value error, ")
    return f"{where}: {said[0].lower()}{said[1:]}" if where else said


def _keys(where: tuple[str | int, ...]) -> list[str]:
    """The keys that a table may have."""
    model: Any = Enterprise
    for part in where:
        if isinstance(part, str) and part in model.model_fields:
            model = _inner(model.model_fields[part].annotation) or model
    return [name for name in model.model_fields if (model, name) != (Enterprise, "file")]


def _inner(annotation: Any) -> type[_Table] | None:
    """The table that a field holds, or holds a list of."""
    if isinstance(annotation, type) and issubclass(annotation, _Table):
        return annotation
    for one in getattr(annotation, "__args__", ()):
        if (found := _inner(one)) is not None:
            return found
    return None
