"""Parses the enterprise file: a TOML of users, apps and contents to create when the service starts.

`enterprise.example.toml` beside this module shows and explains every table.  The models here mirror the file;
provisioning.py turns them into rows.

Rule: every error in a file is reported as one sentence that names the file and the key.
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
    trash_days: Days | Literal["never"] = 30  # `never`: items stay in the trash until deleted
    tracking_codes: list[Text] = []


class ProvisionedSecret(_Table):
    """A secret: its value, or the name of a file or of an environment variable that holds it."""

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
    enterprise_content: bool | None = None  # may search everybody's content; by default only admins


class ProvisionedKey(_Table):
    kid: Text
    file: Path


class ProvisionedSignature(_Table):
    """The keys that sign an application's webhook deliveries."""

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
    service_user: str | None = None  # a login; by default a service account is created


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
    """The content of an enterprise file, and its path."""

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
        """Read a file named in the enterprise file, relative to its folder.  Raises `ConfigError`."""
        try:
            return (self.file.parent / path.expanduser()).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.error(where, f"{path} cannot be read: {_reason(error)}") from None

    def read_secret(self, secret: ProvisionedSecret, where: str) -> str:
        """Return the value of a secret.  Raises `ConfigError` if it cannot be read."""
        if secret.file is not None:
            found: str | None = self.read(secret.file, where).strip()
        elif secret.env is not None:
            found = process_env.variable(secret.env)
        else:
            found = secret.value
        if not found:
            message = f"the variable {secret.env} is not set" if secret.env else "the secret is empty"
            raise self.error(where, message)
        return found

    def error(self, where: str, message: str) -> errors.ConfigError:
        """Return an error about one key, as one sentence."""
        return errors.ConfigError(f"{self.file}: {where}: {message}.")


def load(path: Path) -> Enterprise:
    """Parse and validate the file by itself.  Raises `ConfigError`."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The enterprise file {path} cannot be read: {_reason(error)}.") from None
    except tomllib.TOMLDecodeError as error:
        raise errors.ConfigError(f"The enterprise file {path} is not TOML: {error}.") from None
    values.pop("file", None)
    try:
        return Enterprise.model_validate(values | {"file": path})
    except pydantic.ValidationError as error:
        # Unknown keys first: a missing key is often one that was misspelled.
        found = error.errors(include_url=False)
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        message = _describe(first)
        raise errors.ConfigError(f"{path}: {message}{'' if message.endswith('?') else '.'}") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _describe(error: Any) -> str:
    """Return a sentence about the error that begins with the key."""
    where = ""
    for part in error["loc"]:
        where += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if where else str(part)
    if error["type"] == "extra_forbidden":
        known = _keys(error["loc"][:-1])
        return f"{where} is not known{config.hint(str(error['loc'][-1]), known)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message[0].lower()}{message[1:]}" if where else message


def _keys(where: tuple[str | int, ...]) -> list[str]:
    """Return the keys that a table may have."""
    model: Any = Enterprise
    for part in where:
        if isinstance(part, str) and part in model.model_fields:
            model = _table_type(model.model_fields[part].annotation) or model
    return [name for name in model.model_fields if (model, name) != (Enterprise, "file")]


def _table_type(annotation: Any) -> type[_Table] | None:
    """Return the table type that a field holds, or holds a list of."""
    if isinstance(annotation, type) and issubclass(annotation, _Table):
        return annotation
    for one in getattr(annotation, "__args__", ()):
        if (found := _table_type(one)) is not None:
            return found
    return None
