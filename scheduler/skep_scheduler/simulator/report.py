"""The report of simulations: one HTML file without scripts and without anything from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

COLUMNS = (
    ("policy", "Policy"),
    ("seed", "Seed"),
    ("jobs", "Jobs"),
    ("avg_jct_s", "Mean JCT"),
    ("p50_jct_s", "Median JCT"),
    ("p99_jct_s", "p99 JCT"),
    ("avg_wait_s", "Mean wait"),
    ("wait_max_s", "Longest wait"),
    ("starved", "Starved"),
    ("makespan_s", "Makespan"),
    ("utilisation", "Utilisation"),
    ("deadlines_met", "Deadlines met"),
    ("rho_max", "Worst ρ"),
    ("preemptions", "Preemptions"),
)
BARS = (("avg_jct_s", "Mean job completion time"), ("p99_jct_s", "99th percentile"))
STYLE = """
:root{color-scheme:light dark;--line:#8884;--bar:#3867d6;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
figure{margin:2rem 0}figcaption{font-weight:600;margin-bottom:.5rem}
svg{width:100%;height:auto;background:var(--soft);border-radius:6px}
svg text{fill:currentColor;font-size:12px}
"""
LINES = ("#3867d6", "#eb3b5a", "#20bf6b", "#f7b731", "#8854d0", "#0fb9b1", "#fa8231", "#778ca3")
Series = Sequence[tuple[float, int, int]]


def render(lines: Sequence[dict[str, Any]], series: Sequence[Series]) -> str:
    """Return the page of these figures, with the series of each line where it has one."""
    first = lines[0] if lines else {}
    title = f"Simulation of {first.get('trace', '')} ({first.get('preset', '')})"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width">',
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>",
        _table(lines),
        *(_bars(lines, name, caption) for name, caption in BARS),
        _curves(lines, series, 1, "Jobs that wait"),
        _curves(lines, series, 2, "GPUs in use"),
        "</html>\n",
    ]
    return "".join(parts)


def _table(lines: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th scope=col>{name}" for _, name in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(key, line.get(key))}" for key, _ in COLUMNS) for line in lines
    )
    return f"<table><thead><tr>{head}<tbody>{rows}</table>"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "utilisation":
        return f"{value:.1%}"
    if key.endswith("_s"):
        return duration(value)
    return f"{value:.2f}" if isinstance(value, float) else escape(str(value))


def duration(seconds: float) -> str:
    """Return seconds as people read them."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def _bars(lines: Sequence[dict[str, Any]], key: str, caption: str) -> str:
    largest = max((line.get(key, 0.0) for line in lines), default=0.0) or 1.0
    height, rows = 26, []
    for number, line in enumerate(lines):
        y, value = number * height, line.get(key, 0.0)
        width = 640 * value / largest
        rows.append(
            f"<text x=8 y={y + 18}>{escape(_label(line))}</text>"
            f'<rect x=220 y={y + 5} width={width:.1f} height=16 rx=3 fill="{_color(number)}"/>'
            f"<text x={228 + width:.1f} y={y + 18}>{duration(value)}</text>"
        )
    box = f'<svg viewBox="0 0 960 {height * max(len(lines), 1) + 4}" role=img>'
    return f"<figure><figcaption>{caption}</figcaption>{box}{''.join(rows)}</svg></figure>"


def _curves(
    lines: Sequence[dict[str, Any]], series: Sequence[Series], column: int, caption: str
) -> str:
    known = [(n, points) for n, points in enumerate(series) if len(points) > 1]
    if not known:
        return ""
    start = min(points[0][0] for _, points in known)
    span = max(points[-1][0] for _, points in known) - start or 1.0
    top = max(point[column] for _, points in known for point in points) or 1
    drawn = []
    for n, points in known:
        path = " ".join(
            f"{40 + 900 * (point[0] - start) / span:.1f},{230 - 210 * point[column] / top:.1f}"
            for point in points
        )
        drawn.append(
            f'<polyline points="{path}" fill=none stroke="{_color(n)}" stroke-width=1.5 />'
        )
        drawn.append(
            f'<text x={50 + 150 * (n % 6)} y={252 + 16 * (n // 6)} style="fill:{_color(n)}">'
            f"{escape(_label(lines[n]))}</text>"
        )
    legend = 16 * (max(n for n, _ in known) // 6)
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<svg viewBox="0 0 960 {262 + legend}" role=img>'
        f"<text x=4 y=26>{top:,}</text><text x=4 y=234>0</text>"
        f"<text x=890 y=246>{duration(span)}</text>{''.join(drawn)}</svg></figure>"
    )


def _label(line: dict[str, Any]) -> str:
    return f"{line.get('policy', '')} · {line.get('seed', 0)}"


def _color(number: int) -> str:
    return LINES[number % len(LINES)]
