"""Pages for legal holds, retention policies and metadata templates.

All of it through the API's operations; a hold may be assigned when it is created.

Rule: if a new hold could not be assigned, the hold stays, and the page says so.
"""

import re
from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin import protections
from cmsfs.service.admin.desk import Desk

PAGE = 50
# The number of field rows in a template's form.
FIELDS = 6

TYPES = {
    "string": "text",
    "float": "number",
    "date": "date",
    "enum": "one of the options",
    "multiSelect": "any of the options",
}


async def _list(desk: Desk, line: str, template: str, **values: Any) -> responses.Response:
    try:
        found = await desk.ask(line, marker=desk.marker, limit=PAGE)
    except service_desk.Mistake as error:
        found, values["mistake"] = {"entries": [], "next_marker": None}, str(error)
    return desk.page(template, entries=found["entries"], next=found["next_marker"] or "", **values)


async def holds(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    line = "GET /legal_hold_policies"
    return await _list(desk, line, "holds.html", form=form, mistake=mistake, targets=protections.HOLD_TARGETS)


async def hold(desk: Desk, form: dict[str, str]) -> responses.Response:
    body: dict[str, Any] = {"policy_name": form.get("name", "").strip()}
    if description := form.get("description", "").strip():
        body["description"] = description
    first, last = form.get("first", ""), form.get("last", "")
    if first or last:
        if not protections.DAY.fullmatch(first) or not protections.DAY.fullmatch(last):
            raise service_desk.Mistake(
                "A hold for a time needs the first and the last day; without days it is ongoing."
            )
        body |= {
            "filter_started_at": f"{first}T00:00:00+00:00",
            "filter_ended_at": f"{last}T23:59:59+00:00",
        }
    else:
        body["is_ongoing"] = True
    kind, target = form.get("target", ""), form.get("target_id", "").strip()
    if bool(kind) != bool(target):
        raise service_desk.Mistake("To assign the hold, choose what it covers and give its id.")
    made = await desk.ask("POST /legal_hold_policies", body=body)
    if not kind:
        return desk.done(
            f"The hold {made['policy_name']} is there; assigned to nothing yet, it covers nothing."
        )
    wish = {"policy_id": str(made["id"]), "assign_to": {"type": kind, "id": target}}
    try:
        await desk.ask("POST /legal_hold_policy_assignments", body=wish)
    except service_desk.Mistake as mistake:
        return desk.done(f"The hold {made['policy_name']} is there, but not assigned: {mistake}", failed=True)
    return desk.done(f"The hold {made['policy_name']} is in force.")


async def retention(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    line = "GET /retention_policies"
    return await _list(desk, line, "retention.html", form=form, mistake=mistake, actions=protections.ACTIONS)


async def templates(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    line = "GET /metadata_templates/enterprise"
    return await _list(
        desk, line, "templates.html", form=form, mistake=mistake, types=TYPES, rows=range(1, FIELDS + 1)
    )


async def template(desk: Desk, form: dict[str, str]) -> responses.Response:
    body: dict[str, Any] = {
        "scope": "enterprise",
        "displayName": form.get("name", "").strip(),
        "fields": _fields(form),
        "hidden": bool(form.get("hidden")),
        "copyInstanceOnItemCopy": bool(form.get("copies")),
    }
    if key := form.get("key", "").strip():
        body["templateKey"] = key
    made = await desk.ask("POST /metadata_templates/schema", body=body)
    return desk.done(f"The template {made['displayName']} is there; its key is {made['templateKey']}.")


async def change_template(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Rename or hide a template, or delete it with all of its values."""
    key, action = desk.request.path_params["key"], form.get("action", "")
    params, schema = {"scope": "enterprise", "key": key}, "/metadata_templates/{scope}/{key}/schema"
    if action == "save":
        data = {"displayName": form.get("name", "").strip(), "hidden": bool(form.get("hidden"))}
        steps = [{"op": "editTemplate", "data": data}]
        await desk.ask(f"PUT {schema}", params=params, body=steps)
        return desk.done("The template is changed.", to="/templates")
    if action != "remove" or form.get("confirm", "").strip() != key:
        raise service_desk.Mistake("To remove the template, type its exact key.")
    await desk.ask(f"DELETE {schema}", params=params)
    return desk.done("The template is removed, with all of its values.", to="/templates")


def _fields(form: dict[str, str]) -> list[dict[str, Any]]:
    found = [new_field(form, str(row)) for row in range(1, FIELDS + 1)]
    return [one for one in found if one is not None]


def split_commas(text: str) -> list[str]:
    """Split a comma-separated text."""
    return [word for one in text.split(",") if (word := one.strip())]


def new_field(form: dict[str, str], row: str) -> dict[str, Any] | None:
    """Return the field that a row of a form describes, or None if the row is empty."""
    name, kind = form.get(f"field.{row}", "").strip(), form.get(f"type.{row}", "string")
    options = split_commas(form.get(f"options.{row}", ""))
    if not name:
        if options:
            raise service_desk.Mistake(f"Field {row} has options but no name.")
        return None
    made: dict[str, Any] = {"type": kind, "key": _key(name), "displayName": name}
    if kind in ("enum", "multiSelect"):
        if not options:
            raise service_desk.Mistake(f"{name} needs options, separated by commas.")
        made["options"] = [{"key": one} for one in options]
    elif options:
        raise service_desk.Mistake(f"{name} cannot have options.")
    return made


def _key(name: str) -> str:
    """Derive a field's key from its name, in camel case."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    key = "".join([one.lower() if at == 0 else one.capitalize() for at, one in enumerate(words)])
    return key if key[:1].isalpha() else f"field{key}"
