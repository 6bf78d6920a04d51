"""The table as a plot: how many times better the drive is than rclone, a bar a figure, in logarithms."""

import html
import math
from collections.abc import Sequence
from pathlib import Path

from tests.bench.table.comparison import Comparison
from tests.bench.table.results import Results

WIDTH, LABELS, LONGEST, LINE, TOP = 960, 340, 420, 26, 78
BEHIND, AHEAD, GREY = "#c64600", "#1f5fa6", "#5e5c64"


def draw(results: Results, rows: Sequence[Comparison], target: Path) -> None:
    """The plot of all that both have done."""
    bars = list(_bars(results, rows))
    if not bars:
        return
    ends = [math.log10(ratio) for _, ratio, _ in bars]
    low, high = min(-0.3, *ends), max(0.3, *ends)
    unit = LONGEST / (high - low)
    zero = LABELS - low * unit
    height = TOP + LINE * len(bars) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="\'DejaVu Sans\', sans-serif" font-size="13">',
        "  <title>The drive and rclone mount side by side</title>",
        f'  <rect width="{WIDTH}" height="{height}" rx="12" fill="#fafafa"/>',
        '  <text x="20" y="30" font-size="16" font-weight="bold">cmsfs and rclone mount side by side</text>',
        f'  <text x="20" y="50" fill="{GREY}">How many times faster, or less, cmsfs is; '
        "both figures, cmsfs's first; same service, same line, over TLS</text>",
        f'  <line x1="{zero:.0f}" y1="{TOP - 10}" x2="{zero:.0f}" y2="{height - 36}" stroke="{GREY}"/>',
    ]
    for at, (label, ratio, values) in enumerate(bars):
        y = TOP + LINE * at
        end = zero + math.log10(ratio) * unit
        begin, width = min(zero, end), max(2, abs(end - zero))
        lines += [
            f'  <text x="20" y="{y + 13}">{html.escape(label)}</text>',
            f'  <rect x="{begin:.0f}" y="{y}" width="{width:.0f}" height="17" '
            f'fill="{AHEAD if ratio >= 1 else BEHIND}"/>',
            f'  <text x="{max(zero, end) + 8:.0f}" y="{y + 13}">{_shown(ratio, 2)} x '
            f'<tspan fill="{GREY}" font-size="11">{html.escape(values)}</tspan></text>',
        ]
    said = f"Scale {results.scale:g} of the sizes named; {results.conditions()}."
    lines.append(f'  <text x="20" y="{height - 14}" font-size="11" fill="{GREY}">{html.escape(said)}</text>')
    target.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def _bars(results: Results, rows: Sequence[Comparison]) -> list[tuple[str, float, str]]:
    found = []
    for row in rows:
        for figure in row.figures:
            theirs = results.median(row.name, "rclone", figure.name)
            ours = results.median(row.name, "cmsfs", figure.name)
            if theirs and ours:
                ratio = ours / theirs if figure.higher else theirs / ours
                label = figure.label if figure is row.figures[0] else f"{row.name}: {figure.label}"
                values = f"{_shown(ours, 3)} and {_shown(theirs, 3)} {figure.unit}".strip()
                found.append((label, ratio, values))
    return found


def _shown(value: float, digits: int) -> str:
    """Round to so many digits, without an exponent."""
    return f"{float(f'{value:.{digits}g}'):,g}"
