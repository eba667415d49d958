"""One JSON line per measured value, beside its reference where there is one."""

from __future__ import annotations

import json
import statistics


def report(
    bench: str, metric: str, value: float, unit: str, reference: float | None = None
) -> None:
    """`ratio` is value / reference, both in `unit`."""
    line: dict[str, object] = {
        "bench": bench,
        "metric": metric,
        "value": round(value, 4),
        "unit": unit,
    }
    if reference is not None:
        line |= {"reference": round(reference, 4), "ratio": round(value / reference, 4)}
    print(json.dumps(line), flush=True)


def percentile(values: list[float], percent: int) -> float:
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
