"""Every policy that runs on any trace, on three traces, and the page that compares them.

The traces: the example of the repository, a made-up one, and one of ElasticFlow's artifact, which
is read from beside the checkout; without it, its table stays as it is. Each policy has its
parameters at their defaults. Equal code makes equal tables: the page is written anew each time, and
differs only where a policy does. `make bench BENCH=policies`, or `python -m benchmarks.policies
--check`, which writes nothing and fails where the page would change.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import report

from skep_scheduler import policies
from skep_scheduler.simulator.command import SimulateRequest, execute_all, plan_runs
from skep_scheduler.simulator.presets import registry

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/policies/comparison.md"
MARK = "<!-- From here on written by benchmarks/policies.py. -->\n"
ELASTICFLOW = (
    ROOT.parent / "shared/reference/traces/elasticflow/artifact/elasticVpollux_e.csv"
)  # fmt: skip
MOST_S = 300.0  # for all of them
COLUMNS = (
    "Policy", "Mean (h)", "p99 (h)", "Makespan (h)", "Worst rho", "Mean rho", "GPUs in use",
    "Preemptions", "Deadlines met", "Not finished",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """A trace by its title on the page; `options` are those of `skep simulate`."""

    key: str
    title: str
    options: str
    request: SimulateRequest


TRACES = (
    TraceSpec(
        "week",
        "A week of a team: 120 jobs on 16 GPUs",
        "--trace examples/traces/team-week.csv --cluster 2x8xV100",
        SimulateRequest(ROOT / "examples/traces/team-week.csv", "2x8xV100"),
    ),
    TraceSpec(
        "synthetic",
        "Made up: 300 jobs on 64 GPUs",
        "--jobs 300 --load 1.0 --cluster 8x8xV100",
        SimulateRequest(None, "8x8xV100", jobs=300, load=1.0),
    ),
    TraceSpec(
        "elasticflow",
        "ElasticFlow's trace: 195 jobs on 64 T4, with deadlines",
        "--trace elasticflow/artifact/elasticVpollux_e.csv --cluster 16x4xT4",
        SimulateRequest(ELASTICFLOW, "16x4xT4"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    head, _, before = text.partition(MARK)
    sections = []
    for spec in TRACES:
        if spec.request.trace is None or spec.request.trace.exists():
            sections.append("\n".join(section(spec)))
        else:
            found = re.search(rf"^## {re.escape(spec.title)}\n.*?(?=^## |\Z)", before, re.M | re.S)
            sections.append(found[0].rstrip("\n") if found else f"## {spec.title}\n\nNot run.")
    made = head + MARK + "\n" + "\n\n".join(sections) + "\n"
    if check and made != text:
        sys.exit(f"{PAGE.name} is out of date: run make bench BENCH=policies")
    if not check:
        PAGE.write_text(made, encoding="utf-8")


def section(spec: TraceSpec) -> Iterator[str]:
    """Run all policies on a trace and yield the lines of its section."""
    begun = time.perf_counter()
    lines = {}
    for names, placement in ((kernel_policies(), ""), (live_policies(), "cells")):
        options = {field: getattr(spec.request, field) for field in SimulateRequest.__slots__}
        options |= {"policies": names, "placement": placement}
        runs = plan_runs(SimulateRequest(**options))
        for line, _ in execute_all(runs, os.cpu_count() or 1, lambda ended, of: None):
            lines[line["policy"]] = line
            report("policies", f"{spec.key}_{line['policy']}_avg_jct", line["avg_jct_s"], "s")
    report("policies", f"{spec.key}_wall", time.perf_counter() - begun, "s", MOST_S)
    yield f"## {spec.title}"
    yield ""
    yield f"`skep simulate {spec.options} --policy NAME`"
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for name in sorted(lines):
        yield row(lines[name])


def kernel_policies() -> tuple[str, ...]:
    return tuple(sorted(registry.find("native").policies))


def live_policies() -> tuple[str, ...]:
    """Return those that only the live engine runs."""
    return tuple(sorted(set(policies.names()) - set(kernel_policies())))


def row(line: dict[str, Any]) -> str:
    hours = [f"{line[name] / 3600:.2f}" for name in ("avg_jct_s", "p99_jct_s", "makespan_s")]
    due = f"{line['deadlines_met']} of {line['deadlines']}" if line["deadlines"] else "–"
    cells = [
        f"`{line['policy']}`",
        *hours,
        f"{line['rho_max']:.1f}",
        f"{line['rho_mean']:.2f}",
        f"{line['utilisation'] * 100:.0f} %",
        f"{line['preemptions']:,}",
        due,
        str(line["jobs"] - line["finished"]) if line["jobs"] > line["finished"] else "",
    ]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    main()
