"""A scheduler in a process of its own that stops at a chosen point of its tick, to be killed there.

Run as `python -m tests.support.jobs_killed POINT`; prints "reached" and waits for the end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

POINTS = (
    "planned",  # the plan is made, nothing is written
    "locked",  # in the transaction: the job is locked and its gang has a network
    "job",  # in the transaction: all is written but the nodes' revisions
    "commit",  # all is written, before COMMIT
)


def hold_at(point: str) -> None:
    """From now on the tick stops at `point` for ever."""
    from skep_platform.scheduling import placing
    from skep_platform.scheduling.placing import _Rows

    if point == "planned":
        placing.place = _stop  # type: ignore[assignment]
    elif point == "locked":
        _Rows.write = _stop  # type: ignore[method-assign]
    elif point == "job":
        placing.bump_revision = _stop
    elif point == "commit":
        _Rows.write = _then_stop(_Rows.write)  # type: ignore[method-assign]
    else:
        raise SystemExit(f"no such point: {point}")


def _stop(*_: Any, **__: Any) -> Any:
    print("reached", flush=True)
    threading.Event().wait()


def _then_stop(step: Callable[..., Any]) -> Callable[..., Any]:
    def stopped(*args: Any) -> Any:
        step(*args)
        _stop()

    return stopped


if __name__ == "__main__":
    import django

    django.setup()
    hold_at(sys.argv[1])
    from skep_platform.scheduling.tick import Scheduler, tick

    print("ticked", tick(Scheduler()), flush=True)
