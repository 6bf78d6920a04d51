"""The settings with their descriptions; the command line validates and stores changes."""

import typing
from dataclasses import dataclass

from starlette import responses

from cmsfs import config, errors
from cmsfs.config import descriptions
from cmsfs.config.settings import Settings
from daemon.ui import commands
from daemon.ui.desk import Form, Page, PageDesk


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting, with its value for the next mount."""

    name: str
    text: str
    unit: str
    value: str
    default: str
    origin: str  # "" for the default
    choices: tuple[str, ...]  # empty: any value of its type
    kind: str


async def show(desk: PageDesk) -> responses.Response:
    account = desk.drive.settings.account
    values = config.load(account).model_dump(mode="json")
    origins = config.origins(account)
    sections: dict[str, list[ShownSetting]] = {}
    section = "General"
    for one in descriptions.everything():
        section = one.section or section
        value = values.get(one.name)
        if one.name == "account" or (
            isinstance(value, list) and any(isinstance(part, dict) for part in value)
        ):
            continue  # the page is for one account; nested tables are edited in the file
        sections.setdefault(section, []).append(
            ShownSetting(
                name=one.name,
                text=one.text,
                unit=one.unit,
                value=_text(value),
                default=one.shown_default,
                origin=origins.get(one.name, ""),
                choices=_choices(one.name),
                kind=one.kind,
            )
        )
    return desk.page("settings.html", "Settings", sections=sections, file=str(config.config_file()))


async def keep(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    name, value = given.get("name", ""), given.get("value", "").strip()
    if name not in Settings.model_fields:
        raise errors.UserError(f"There is no setting {name}.")
    account = desk.drive.settings.account
    if given.get("choice") == "default" or not value:
        await commands.run(account, "config", "unset", "--", name)
        return desk.to("settings", f"{name} has its default from the next mount on.")
    current = config.load(account).model_dump(mode="json")[name]
    words = value.split() if isinstance(current, list) else [value]
    await commands.run(account, "config", "set", "--", name, *words)
    return desk.to("settings", f"{name} is {value} from the next mount on.")


def _choices(name: str) -> tuple[str, ...]:
    kind = Settings.model_fields[name].annotation
    if kind is bool:
        return "true", "false"
    if typing.get_origin(kind) is typing.Literal:
        return tuple(map(str, typing.get_args(kind)))
    return ()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


PAGES: dict[str, Page] = {"settings": show}
FORMS: dict[str, Form] = {"keep": keep}
