"""Parses durations such as `30m` and `2h`."""

import re

import click

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*")


class Duration(click.ParamType[float]):
    """Seconds, from 90, 90s, 45m, 1h30m, 2d."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            text += "s"
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        if _PART.sub("", text) or not seconds:
            self.fail(f"{value!r} is not a duration, such as 90s, 45m, 1h30m or 2d.", param, ctx)
        return seconds
