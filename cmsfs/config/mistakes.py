"""Describes an invalid setting for the author of the file, with its place in the file."""

import json
import re
from pathlib import Path
from typing import Any

from cmsfs.config import descriptions
from cmsfs.config.settings import OLD_NAMES, Settings

# Pydantic's type errors; the setting's own description is more helpful.
_OTHER_TYPE = re.compile(r"literal_error|.*_(type|parsing)|int_from_float")


def sentence(mistake: Any) -> str:
    """Return a sentence on the value and what it should be, without the setting's name: `"often" is not a
    number.`"""
    key = str(mistake["loc"][0])
    if mistake["type"] == "value_error":
        return f"{mistake['msg'].removeprefix('Value error, ')}."
    value = json.dumps(mistake["input"], ensure_ascii=False, default=str)
    if len(mistake["loc"]) == 1 and key in Settings.model_fields and _OTHER_TYPE.fullmatch(mistake["type"]):
        kind = descriptions.describe(key).kind
        article = "" if kind.startswith(('"', "true", "text")) else "a "
        return f"{value} is not {article}{kind}."
    return f"{value}: {mistake['msg']}."


def place(path: Path, text: str, account: str, key: str) -> str:
    """Return the place of a setting's value in the file, with the line number if it is there."""
    names = [key, *(old for old, new in OLD_NAMES.items() if new == key)]
    found = 0
    table: str | None = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*(.*?)\s*\]", line):
            table = header[1].replace('"', "").replace("'", "")
        elif table in ("", f"accounts.{account}") and re.match(rf"\s*({'|'.join(names)})\s*=", line):
            found = number
    return f"{path}, line {found}" if found else str(path)
