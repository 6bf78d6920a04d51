"""A span of time as a person types it."""

import re

import click

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")


class Duration(click.ParamType[float]):
    """Seconds, from 90s, 45m, 8h, 2d."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _SPAN.fullmatch(str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no span of time: 90s, 45m, 8h, 2d.", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]
