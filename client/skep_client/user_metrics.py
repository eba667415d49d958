"""Metrics that a program in a job measures itself: a line in its log for each call, which the
server reads and plots where the job file has `extras.skep.metrics`. Needs no token and no server,
and imports nothing but the standard library."""

from __future__ import annotations

import os
import re
import sys
from typing import SupportsFloat

from skep_limits import MAX_METRIC_NAME, METRIC_LINE, METRIC_NAME, METRIC_STEP

_NAME = re.compile(METRIC_NAME)


def log(step: SupportsFloat | None = None, **metrics: SupportsFloat) -> None:
    """Write numbers into the log of the job: `log(loss=0.1, accuracy=0.9, step=5)`.

    Numbers of Python, numpy and torch are taken, also NaN and infinity; without `step` a number
    belongs to its place in the row. Of several processes in a task, as `torchrun` starts them, the
    first one writes (`LOCAL_RANK`). Raises ValueError for a name that is no metric's, and TypeError
    for what is no number.
    """
    for name in metrics:
        if not _NAME.fullmatch(name) or len(name) > MAX_METRIC_NAME:
            message = f"{name!r} cannot name a metric: write lower-case letters, digits and _."
            raise ValueError(message)
    pairs = [f"{name}={_text(value)}" for name, value in metrics.items()]
    if step is not None:
        pairs.append(f"{METRIC_STEP}={_text(step)}")
    if os.environ.get("LOCAL_RANK", "0") == "0":
        # In one piece, so that no other thread writes into the line.
        sys.stdout.write(f"{METRIC_LINE} {' '.join(pairs)}\n")
        sys.stdout.flush()


def _text(number: SupportsFloat) -> str:
    value = float(number)
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
