"""Changes of a metadata template's fields: add, rename and remove them and their options.

A form is one request to the API: applied as a whole or not at all.  Removed fields and options are deleted
from every item that has them, so the word `remove` has to be typed as confirmation.
"""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin import policies
from cmsfs.service.admin.desk import Desk

_SCHEMA = "/metadata_templates/{scope}/{key}/schema"
_ADD = {"enum": "addEnumOption", "multiSelect": "addMultiSelectOption"}
_DROP = {
    "enum": ("removeEnumOption", "enumOptionKey"),
    "multiSelect": ("removeMultiSelectOption", "multiSelectOptionKey"),
}


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    try:
        found = await desk.ask(f"GET {_SCHEMA}", params=_params(desk))
    except service_desk.Mistake as error:
        return desk.done(str(error), failed=True, to="/templates")
    return desk.page("template.html", form=form, mistake=mistake, schema=found, types=policies.TYPES)


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    found = await desk.ask(f"GET {_SCHEMA}", params=_params(desk))
    steps = [step for field in found["fields"] for step in _changes(field, form)]
    removed = [one for one in steps if one["op"].startswith("remove")]
    if removed and form.get("confirm", "").strip() != "remove":
        raise service_desk.Mistake("Fields and options are deleted with their values: type the word remove.")
    added = policies.new_field(form, "new")
    if added is not None:
        steps.append({"op": "addField", "data": added})
    if not steps:
        raise service_desk.Mistake("Nothing is changed.")
    await desk.ask(f"PUT {_SCHEMA}", params=_params(desk), body=steps)
    return desk.done("The fields are changed.")


def _params(desk: Desk) -> dict[str, str]:
    return {"scope": "enterprise", "key": desk.request.path_params["key"]}


def _changes(field: dict[str, Any], form: dict[str, str]) -> list[dict[str, Any]]:
    """Return the changes that the form makes to an existing field."""
    key = field["key"]
    if form.get(f"drop.{key}"):
        return [{"op": "removeField", "fieldKey": key}]
    steps: list[dict[str, Any]] = []
    name = form.get(f"name.{key}", field["displayName"]).strip()
    if name != field["displayName"]:
        steps.append({"op": "editField", "fieldKey": key, "data": {"displayName": name}})
    if (kind := field["type"]) in _ADD and f"options.{key}" in form:
        wanted = policies.split_commas(form[f"options.{key}"])
        has = [one["key"] for one in field["options"]]
        op, word = _DROP[kind]
        steps += [
            {"op": _ADD[kind], "fieldKey": key, "data": {"key": one}} for one in wanted if one not in has
        ]
        steps += [{"op": op, "fieldKey": key, word: one} for one in has if one not in wanted]
    return steps
