"""Generates the OpenAPI description from the operations and their models.

Paths are those that are served: the API below /2.0, uploads below /api/2.0, where clients send them, tokens
and shared links at the root.

Rule: this module contains no descriptions: they are in the `Operation`, in the group in app.py, or in the
model.
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
    """The OpenAPI document of these routes; `others` are groups outside the API's root."""
    found = [(group, one) for group in (*api, *others) for one in group.routes if _is_shown(one)]
    schemas = _Schemas([one for _, one in found])
    paths: dict[str, dict[str, Any]] = {}
    for group, one in found:
        path = _path(one, group, is_api=group in api)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, group, schemas)
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
            "schemas": schemas.definitions,
            "parameters": {one.name: _parameter(one) for one in _EVERYWHERE},
            "securitySchemes": {"oauth": _security()},
        },
    }


def _is_shown(route: Any) -> TypeGuard[Operation]:
    """Whether to describe a route; skips the duplicate of an operation with a trailing slash."""
    return isinstance(route, Operation) and not route.path.endswith("/")


def _path(one: Operation, group: Group, *, is_api: bool) -> str:
    if not is_api:
        return one.path_format
    return f"/api/2.0{one.path_format}" if group.at_uploads else f"/2.0{one.path_format}"


def _security() -> dict[str, Any]:
    flows = {"tokenUrl": "/oauth2/token", "scopes": scopes.APPLICATION}
    code = flows | {"authorizationUrl": "/oauth2/authorize", "refreshUrl": "/oauth2/token"}
    return {"type": "oauth2", "flows": {"authorizationCode": code, "clientCredentials": flows}}


class _Schemas:
    """The schemas of all request and response bodies, with their shared definitions."""

    def __init__(self, found: Iterable[Operation]) -> None:
        keys = dict.fromkeys(key for one in found for key in _keys(one))
        inputs: list[tuple[int, json_schema.JsonSchemaMode, pydantic.TypeAdapter[Any]]] = []
        for at, (shape, mode) in enumerate(keys):
            inputs.append((at, mode, _adapter(shape)))
        schemas, whole = pydantic.TypeAdapter.json_schemas(inputs, ref_template=_SCHEMAS + "{model}")
        self._names = _display_names(whole.get("$defs", {}))
        self.definitions = {
            self._names[name]: self._renamed(schema) for name, schema in whole.get("$defs", {}).items()
        }
        self._by_key = {key: self._renamed(schemas[at, key[1]]) for at, key in enumerate(keys)}

    def of(self, shape: Any, mode: json_schema.JsonSchemaMode) -> dict[str, Any]:
        found: dict[str, Any] = self._by_key[shape, mode]
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


def _display_names(schemas: Mapping[str, Any]) -> dict[str, str]:
    """Readable schema names: duplicates get their module as a prefix, generic pages their item types."""
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


def _operation(one: Operation, group: Group, schemas: _Schemas) -> dict[str, Any]:
    parameters = [
        *_path_parameters(one),
        *_query_parameters(one.query, schemas),
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
        "responses": _responses(one, schemas),
    }
    if description := _description(one):
        found["description"] = description
    if one.body is not None:
        found["requestBody"] = _body(one.body, schemas)
    return found


def _description(one: Operation) -> str:
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
    """The alternative application scopes that suffice, each with the scopes required in addition."""
    need = _need(one)
    if need is None:
        return []
    enough = [scope for scope in scopes.APPLICATION if need.one_of & scopes.expand([scope])]
    return [{"oauth": [scope, *sorted(need.also)]} for scope in enough] or [{"oauth": sorted(need.also)}]


def _path_parameters(one: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in one.param_convertors
    ]


def _query_parameters(
    query: Sequence[Parameter] | type[pydantic.BaseModel], schemas: _Schemas
) -> list[dict[str, Any]]:
    if not isinstance(query, type):
        return [_parameter(one) for one in query]
    found = []
    for name, schema in query.model_json_schema()["properties"].items():
        if name == "mdfilters":
            # JSON inside the query string.
            schema = {
                "type": "array",
                "items": schemas.of(search.MetadataFilter, "validation"),
                "minItems": 1,
                "maxItems": 1,
            }
            found.append({"name": name, "in": "query", "content": {"application/json": {"schema": schema}}})
        else:
            found.append(_parameter(Parameter(name, schema.get("description", ""), _query_schema(schema))))
    return found


def _query_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A field's schema without its title, and without null, which a query string cannot express."""
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


def _body(body: Any, schemas: _Schemas) -> dict[str, Any]:
    match body:
        case str():
            return _content(body, _BINARY, required=True)
        case operations.UploadForm():
            parts = {"attributes": schemas.of(body.attributes, "validation"), "file": _BINARY}
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
                "application/x-www-form-urlencoded", schemas.of(body.shape, "validation"), required=True
            )
        case _:
            return _content("application/json", schemas.of(body, "validation"), required=True)


def _content(kind: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}} | more


def _responses(one: Operation, schemas: _Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, shape in one.successes.items():
        found[str(status)] = {"description": HTTPStatus(status).phrase} | _answer(shape, schemas)
    for status in one.refusals:
        # A 401 has no body, as in the public API.
        shape = None if status == 401 and not one.public else one.problem
        found[str(status)] = {"description": HTTPStatus(status).phrase} | _answer(shape, schemas)
        if status == 413:
            found[str(status)] |= _answer(problems.Problem, schemas)
    return found


def _answer(shape: Any, schemas: _Schemas) -> dict[str, Any]:
    if shape is None:
        return {}
    if shape == operations.BYTES:
        # Files have their own content type.
        return _content("*/*", _BINARY)
    if isinstance(shape, str):
        return _content(shape, {"type": "string"})
    return _content("application/json", schemas.of(shape, "serialization"))
