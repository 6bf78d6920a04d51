"""Generates the OpenAPI description from the operations and their models.

Paths are as they are served: everything below /2.0, the operations of uploads below /api/2.0, where clients
send them, tokens and shared links at the root.

Rule: nothing is described here: what is said of an operation stands in its line, of a group in app.py, of a
shape in its model.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeGuard

import pydantic
from pydantic import json_schema

from cmsfs.models import problems
from cmsfs.models.content import search
from cmsfs.service.access import scopes
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Group, Operation, Parameter

_SCHEMAS = "#/components/schemas/"
_EVERYWHERE = (operations.AS_USER, operations.VERSION)
_BINARY = {"type": "string", "format": "binary"}

_ABOUT = """\
A content management service: files, folders and web links, their search, sharing, protection and metadata,
and the users of an enterprise. Operations take a token, as `authorization: Bearer TOKEN`.
A change (`PUT` with a JSON object) is done as a whole or refused: 400 for a field that there is not, or that
cannot be changed. Other bodies may hold what the service does not know; it is not looked at.
"""

Key = tuple[Any, json_schema.JsonSchemaMode]


def document(api: Sequence[Group], others: Sequence[Group], *, version: str) -> dict[str, Any]:
    """The description of these routes as an object for JSON; `others` are those outside of the API's root."""
    found = [(group, one) for group in (*api, *others) for one in group.routes if _is_shown(one)]
    made = _Shapes([one for _, one in found])
    paths: dict[str, dict[str, Any]] = {}
    for group, one in found:
        path = _path(one, group, is_api=group in api)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, group, made)
    summaries: dict[str, str] = {}
    for group, _ in found:
        summaries.setdefault(group.name, group.summary)
    return {
        "openapi": "3.1.0",
        "info": {"title": "cmsfs service", "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": summary} for name, summary in summaries.items()],
        "paths": paths,
        "components": {
            "schemas": made.definitions,
            "parameters": {one.name: _parameter(one) for one in _EVERYWHERE},
            "securitySchemes": {"oauth": _security()},
        },
    }


def _is_shown(route: Any) -> TypeGuard[Operation]:
    """One operation has a second path, which only differs by a slash."""
    return isinstance(route, Operation) and not route.path.endswith("/")


def _path(one: Operation, group: Group, *, is_api: bool) -> str:
    if not is_api:
        return one.path_format
    return f"/api/2.0{one.path_format}" if group.at_uploads else f"/2.0{one.path_format}"


def _security() -> dict[str, Any]:
    flows = {"tokenUrl": "/oauth2/token", "scopes": scopes.APPLICATION}
    code = flows | {"authorizationUrl": "/oauth2/authorize", "refreshUrl": "/oauth2/token"}
    return {"type": "oauth2", "flows": {"authorizationCode": code, "clientCredentials": flows}}


class _Shapes:
    """The schemas of all bodies and answers, with the definitions that they share."""

    def __init__(self, found: Iterable[Operation]) -> None:
        keys = dict.fromkeys(key for one in found for key in _keys(one))
        inputs: list[tuple[int, json_schema.JsonSchemaMode, pydantic.TypeAdapter[Any]]] = []
        for at, (shape, mode) in enumerate(keys):
            inputs.append((at, mode, _adapter(shape)))
        schemas, whole = pydantic.TypeAdapter.json_schemas(inputs, ref_template=_SCHEMAS + "{model}")
        self._names = _short(whole.get("$defs", {}))
        self.definitions = {
            self._names[name]: self._renamed(schema) for name, schema in whole.get("$defs", {}).items()
        }
        self._of = {key: self._renamed(schemas[at, key[1]]) for at, key in enumerate(keys)}

    def of(self, shape: Any, mode: json_schema.JsonSchemaMode) -> dict[str, Any]:
        found: dict[str, Any] = self._of[shape, mode]
        return found

    def _renamed(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                name: self._ref(one) if name == "$ref" else self._renamed(one) for name, one in schema.items()
            }
        return [self._renamed(one) for one in schema] if isinstance(schema, list) else schema

    def _ref(self, ref: Any) -> Any:
        prefix, _, name = ref.rpartition("/")
        return f"{prefix}/{self._names[name]}"


def _short(schemas: Mapping[str, Any]) -> dict[str, str]:
    """Names for people: of two shapes with one name, the module comes before it; a page says of what."""
    found = {}
    for name in schemas:
        *_, module, last = ["", *name.split("__")]
        found[name] = name if "__" not in name else module.title().replace("_", "") + last
    for name, schema in schemas.items():
        kind, bracket, _ = schema.get("title", "").partition("[")
        if bracket:
            inside = re.findall(r"schemas/(\w+)\"", json.dumps(schema["properties"]["entries"]["items"]))
            found[name] = f"{kind}Of{''.join(found[one] for one in dict.fromkeys(inside))}"
    return found


def _adapter(shape: Any) -> pydantic.TypeAdapter[Any]:
    return shape if isinstance(shape, pydantic.TypeAdapter) else pydantic.TypeAdapter(shape)


def _keys(one: Operation) -> Iterable[Key]:
    for shape in (*one.successes.values(), one.problem, problems.Problem):
        if shape is not None and not isinstance(shape, str):
            yield shape, "serialization"
    body = one.body
    if isinstance(body, operations.UploadForm):
        body = body.attributes
    elif isinstance(body, operations.Form):
        body = body.shape
    elif isinstance(body, operations.FileForm):
        body = None
    if body is not None and not isinstance(body, str):
        yield body, "validation"
    if one.query is search.Query:
        yield search.MetadataFilter, "validation"


def _operation(one: Operation, group: Group, made: _Shapes) -> dict[str, Any]:
    parameters = [
        *_of_path(one),
        *_of_query(one.query, made),
        *(_parameter(parameter) for parameter in one.headers),
    ]
    if not one.public:
        parameters += [
            {"$ref": f"#/components/parameters/{known.name}"}
            for known in (operations.AS_USER, operations.VERSION)
        ]
    found: dict[str, Any] = {
        "operationId": one.name_of_operation,
        "summary": one.says,
        "tags": [group.name],
        "security": _security_of(one),
        "parameters": parameters,
        "responses": _responses(one, made),
    }
    if said := _said(one):
        found["description"] = said
    if one.body is not None:
        found["requestBody"] = _body(one.body, made)
    return found


def _said(one: Operation) -> str:
    paragraphs = [one.more]
    need = _need(one)
    if need is not None and (need.one_of or need.also):
        enough = sorted(scope for scope in scopes.KNOWN if need.one_of & scopes.expand([scope]))
        words = " or ".join(f"`{scope}`" for scope in enough)
        words += "".join(f", and `{scope}`" for scope in sorted(need.also))
        paragraphs.append(f"Scopes: {words}.")
    return "\n\n".join(filter(None, paragraphs))


def _need(one: Operation) -> scopes.Need | None:
    return None if one.public else scopes.find(one.method, one.path) or scopes.UNLISTED


def _security_of(one: Operation) -> list[dict[str, list[str]]]:
    """Each of the scopes of applications that is enough, with those that are needed besides."""
    need = _need(one)
    if need is None:
        return []
    enough = [scope for scope in scopes.APPLICATION if need.one_of & scopes.expand([scope])]
    return [{"oauth": [scope, *sorted(need.also)]} for scope in enough] or [{"oauth": sorted(need.also)}]


def _of_path(one: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in one.param_convertors
    ]


def _of_query(query: Sequence[Parameter] | type[pydantic.BaseModel], made: _Shapes) -> list[dict[str, Any]]:
    if not isinstance(query, type):
        return [_parameter(one) for one in query]
    found = []
    for name, schema in query.model_json_schema()["properties"].items():
        if name == "mdfilters":
            # JSON inside the query string.
            schema = {
                "type": "array",
                "items": made.of(search.MetadataFilter, "validation"),
                "minItems": 1,
                "maxItems": 1,
            }
            found.append({"name": name, "in": "query", "content": {"application/json": {"schema": schema}}})
        else:
            found.append(_parameter(Parameter(name, schema.get("description", ""), _plain(schema))))
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of a model's field without its name, and without the null that no query string holds."""
    schema = {
        name: value
        for name, value in schema.items()
        if name != "title" and (name, value) != ("default", None)
    }
    if "anyOf" in schema:
        others = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
        schema |= others[0] if len(others) == 1 else {"anyOf": others}
    return schema


def _parameter(one: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name, "in": one.place, "schema": dict(one.schema)}
    if one.says:
        found["description"] = one.says
    if one.required:
        found["required"] = True
    if one.schema.get("type") == "array":
        found |= {"style": "form", "explode": False}
    return found


def _body(body: Any, made: _Shapes) -> dict[str, Any]:
    match body:
        case str():
            return _content(body, _BINARY, required=True)
        case operations.UploadForm():
            parts = {"attributes": made.of(body.attributes, "validation"), "file": _BINARY}
            schema = {"type": "object", "properties": parts, "required": list(parts)}
            found = _content("multipart/form-data", schema, required=True)
            found["content"]["multipart/form-data"]["encoding"] = {
                "attributes": {"contentType": "application/json"},
                "file": {"contentType": operations.BYTES},
            }
            return found
        case operations.FileForm():
            schema = {"type": "object", "properties": {body.part: _BINARY}, "required": [body.part]}
            return _content("multipart/form-data", schema, required=True)
        case operations.Form():
            return _content(
                "application/x-www-form-urlencoded", made.of(body.shape, "validation"), required=True
            )
        case _:
            return _content("application/json", made.of(body, "validation"), required=True)


def _content(kind: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}} | more


def _responses(one: Operation, made: _Shapes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, shape in one.successes.items():
        found[str(status)] = {"description": HTTPStatus(status).phrase} | _answer(shape, made)
    for status in one.refusals:
        # Without a good token there is no body, as the public API has it.
        shape = None if status == 401 and not one.public else one.problem
        found[str(status)] = {"description": HTTPStatus(status).phrase} | _answer(shape, made)
        if status == 413:
            found[str(status)] |= _answer(problems.Problem, made)
    return found


def _answer(shape: Any, made: _Shapes) -> dict[str, Any]:
    if shape is None:
        return {}
    if shape == operations.BYTES:
        # Files come as what they are.
        return _content("*/*", _BINARY)
    if isinstance(shape, str):
        return _content(shape, {"type": "string"})
    return _content("application/json", made.of(shape, "serialization"))
