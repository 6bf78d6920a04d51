"""What the public API's own Python client knows of each operation and each shape, as lines of our tables.

The client is generated from the public description: its classes say which fields there are, of what type, and
which are required; its managers say which operation answers which shape.  Statuses it does not say.

Tables of these facts are in `tests/contract/public_api`; `test_public_api.py` holds them against this.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Union

import box_sdk_gen
from box_sdk_gen.internal.base_object import BaseObject
from box_sdk_gen.internal.null_value import NullValue

MANAGERS = Path(box_sdk_gen.__file__).parent / "managers"
PLAIN = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "flag",
    datetime: "time",
    date: "date",
    NoneType: "nothing",
}

# What it takes of a call, and sends nowhere.
_OWN = {"self", "extra_headers", "kwargs"}


class Shapes:
    """The classes that something refers to, by their names."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def type_of(self, hint: Any) -> str:
        """How our tables write a type."""
        origin, within = typing.get_origin(hint), typing.get_args(hint)
        if origin is Union:
            rest = [one for one in within if one not in (NoneType, NullValue)]
            # A word of a list that may grow.
            plain = [one for one in rest if not (inspect.isclass(one) and issubclass(one, Enum))]
            return "|".join(dict.fromkeys(self.type_of(one) for one in (plain or rest)))
        if origin is list:
            return f"[{self.type_of(within[0])}]" if within else "[any]"
        if origin is dict or hint is dict:
            return f"{{{self.type_of(within[1])}}}" if within else "{any}"
        if inspect.isclass(hint) and issubclass(hint, Enum):
            return f"({','.join(sorted(str(one.value).replace(' ', '+') for one in hint))})"
        if inspect.isclass(hint) and issubclass(hint, BaseObject):
            self._add(hint)
            return hint.__name__
        if getattr(hint, "__name__", "") in ("ByteStream", "BufferedIOBase"):
            return "bytes"
        return PLAIN.get(hint, "any")

    def _add(self, shape: type[BaseObject]) -> None:
        if shape.__name__ in self.lines:
            return
        self.lines[shape.__name__] = ""  # it may refer to itself
        hints = hints_of(shape.__init__)
        names = shape._fields_to_json_mapping
        fields = []
        for name, given in inspect.signature(shape.__init__).parameters.items():
            if name not in _OWN:
                fields.append(self.field(names.get(name, name), hints[name], given))
        if "extra_data" in inspect.getsource(shape.__init__):
            fields.append("...")  # and whatever fields templates have
        self.lines[shape.__name__] = " ".join(fields)

    def field(self, name: str, hint: Any, given: inspect.Parameter) -> str:
        """`name` if it is required, `name?` if not, and its type; with `~` it may be null when it is sent."""
        fixed = isinstance(given.default, Enum)  # required, with the one value it has
        mark = "" if given.default is inspect.Parameter.empty or fixed else "?"
        null = "~" if NullValue in typing.get_args(hint) else ""
        return f"{name}{mark}:{self.type_of(hint)}{null}"


def hints_of(function: Any) -> dict[str, Any]:
    return typing.get_type_hints(function)


def _text(node: ast.expr) -> str:
    return "{}" if isinstance(node, ast.Call) else str(getattr(node, "value", ""))


def _calls() -> Iterator[tuple[type, str, ast.FunctionDef, dict[str, ast.expr]]]:
    """The methods of the managers that send something, with what they send."""
    for info in pkgutil.iter_modules([str(MANAGERS)]):
        module = importlib.import_module(f"box_sdk_gen.managers.{info.name}")
        tree = ast.parse((MANAGERS / f"{info.name}.py").read_text(encoding="utf-8"))
        for outer in (one for one in tree.body if isinstance(one, ast.ClassDef)):
            for function in (one for one in outer.body if isinstance(one, ast.FunctionDef)):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "FetchOptions":
                        given = {one.arg: one.value for one in call.keywords if one.arg}
                        yield getattr(module, outer.name), function.name, function, given


def _mapping(function: ast.FunctionDef, name: str) -> dict[str, str]:
    """Which parameter gives which field, as the source builds the dictionary of this name."""
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            for within in ast.walk(node):
                if isinstance(within, ast.Dict):
                    pairs = zip(within.keys, within.values, strict=True)
                    return {str(key.value): _parameter(value) for key, value in pairs if _is_text(key)}
    return {}


def _is_text(node: ast.expr | None) -> typing.TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant)


def _parameter(value: ast.expr) -> str:
    return next(
        (one.id for one in ast.walk(value) if isinstance(one, ast.Name) and one.id != "to_string"), ""
    )


def path_of(url: ast.expr) -> tuple[str, str]:
    """The path below the API's root, and the variant of the operation; nothing for other addresses."""
    if not (isinstance(url, ast.Call) and isinstance(url.args[0], ast.List)):
        return "", ""
    path = "".join(_text(part) for part in url.args[0].elts[1:])
    below, _, variant = path.removeprefix("/2.0").partition("#")
    return below, variant


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an operation: names of the query, fields of the body, the shape of the answer."""

    query: tuple[str, ...]
    body: tuple[str, ...]
    gives: str


def operations(shapes: Shapes) -> dict[tuple[str, str], Facts]:
    """By method and path."""
    variants: dict[tuple[str, str], dict[str, Facts]] = {}
    for manager, name, function, given in _calls():
        path, variant = path_of(given["url"])
        # Some ask for an address alone where others ask for what is there.
        if path and not re.fullmatch(r"get_\w+_url", name):
            known = variants.setdefault((_text(given["method"]), path), {})
            known.setdefault(variant, _facts(shapes, getattr(manager, name), function, given))
    return {key: _merged(found) for key, found in variants.items()}


def _facts(shapes: Shapes, method: Any, function: ast.FunctionDef, given: dict[str, ast.expr]) -> Facts:
    hints, parameters = hints_of(method), inspect.signature(method).parameters

    def fields(of: dict[str, str]) -> tuple[str, ...]:
        known = {wire: one for wire, one in of.items() if one in parameters}
        return tuple(shapes.field(wire, hints[one], parameters[one]) for wire, one in known.items())

    body = fields(_mapping(function, "request_body"))
    if "multipart_data" in given and "attributes" in parameters:
        body = (shapes.field("attributes", hints["attributes"], parameters["attributes"]),)
    elif "request_body" in parameters and "data" in given:
        body = (f"*:{shapes.type_of(hints['request_body'])}",)
    query = tuple(re.sub(r"[:?].*", "", one) for one in fields(_mapping(function, "query_params_map")))
    return Facts(query, body, shapes.type_of(hints["return"]))


def _merged(variants: dict[str, Facts]) -> Facts:
    """An operation that the client has several methods for: one for files, one for folders."""
    plain = variants.pop("", None)
    if plain is None:
        plain = variants.pop(min(variants))
    gives = [plain.gives]
    for name, one in variants.items():
        # Classifications are metadata of one template, which the plain operation says nothing less of.
        if "classification" not in name:
            gives.append(one.gives)
    body = {one.partition(":")[0].rstrip("?"): one for one in plain.body}
    for one in variants.values():
        for field in one.body:
            name = field.partition(":")[0].rstrip("?")
            if field.endswith("~") and name in body:
                body[name] = f"{body[name].rstrip('~')}~"
    return Facts(plain.query, tuple(body.values()), "|".join(dict.fromkeys("|".join(gives).split("|"))))
