"""Draw measured figures of reading as the README's plot: `python tests/bench/plot.py`.

The figures are in `reads.tsv` beside this file, as `reads.py` printed them: what was read, the figure with
the drive, the one with the plain tool, the unit, and whether higher or lower is better.
"""

import csv
import html
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "reads.tsv"
PLOT = HERE.parents[1] / "packaging" / "pictures" / "reads.svg"

WIDTH = 960
LABELS = 330  # where the bars begin
LONGEST = 420
ROW = 58
TOP = 62
SMALL = 'font-size="11" fill="#5e5c64"'
COLORS = {"cmsfs": "#1f5fa6", "plain": "#c0bfbc"}


@dataclass(frozen=True)
class Figure:
    """One comparison: with the drive, and with the tool that does only this."""

    what: str
    ours: float
    plain: float
    tool: str
    unit: str
    better: str


def read(path: Path) -> tuple[str, list[Figure]]:
    """On what it was measured, and the figures."""
    lines = path.read_text(encoding="utf-8").splitlines()
    machine = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
    rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
    return machine, [
        Figure(row["what"], float(row["cmsfs"]), float(row["plain"]), row["tool"], row["unit"], row["better"])
        for row in rows
    ]


def draw(machine: str, figures: list[Figure]) -> str:
    """The plot: two bars a figure, each pair to its own scale."""
    height = TOP + ROW * len(figures) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="\'DejaVu Sans\', sans-serif" font-size="13">',
        "  <title>Reads compared with plain tools</title>",
        f'  <rect width="{WIDTH}" height="{height}" rx="12" fill="#fafafa"/>',
        '  <text x="20" y="30" font-size="16" font-weight="bold">Reads compared with plain tools</text>',
        f'  <rect x="{LABELS}" y="18" width="13" height="13" fill="{COLORS["cmsfs"]}"/>',
        f'  <text x="{LABELS + 20}" y="30">cmsfs drive</text>',
        f'  <rect x="{LABELS + 120}" y="18" width="13" height="13" fill="{COLORS["plain"]}"/>',
        f'  <text x="{LABELS + 140}" y="30">plain tool (named beside its bar)</text>',
    ]
    for at, one in enumerate(figures):
        lines += _pair(one, TOP + ROW * at)
    lines.append(
        f'  <text x="20" y="{height - 14}" font-size="11" fill="#5e5c64">{html.escape(machine)}</text>'
    )
    return "\n".join([*lines, "</svg>", ""])


def _pair(one: Figure, y: int) -> list[str]:
    most = max(one.ours, one.plain)
    lines = [
        f'  <text x="20" y="{y + 18}">{html.escape(one.what)}</text>',
        f'  <text x="20" y="{y + 36}" {SMALL}>{one.unit}, {one.better} is better</text>',
    ]
    for value, color, offset, tool in (
        (one.ours, COLORS["cmsfs"], 4, ""),
        (one.plain, COLORS["plain"], 24, f" ({one.tool})"),
    ):
        width = max(2, round(LONGEST * value / most))
        lines.append(f'  <rect x="{LABELS}" y="{y + offset}" width="{width}" height="17" fill="{color}"/>')
        words = html.escape(f"{value:,g}{tool}")
        lines.append(f'  <text x="{LABELS + width + 8}" y="{y + offset + 13}">{words}</text>')
    return lines


if __name__ == "__main__":
    PLOT.write_text(draw(*read(FIGURES)), encoding="utf-8")
    print(PLOT)
