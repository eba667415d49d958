"""A Celery worker that is one process, so that nothing survives it: threads, with beat as one."""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

from celery.beat import Service
from celery.signals import worker_ready

from skep_platform.celery import app
from skep_platform.core import gc_control

BEAT_LOOP_S = 1


def main() -> None:
    options = _parse()
    # It fears pickle; we send JSON.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    with gc_control.paused():  # this costs seconds, and is done while the database migrates
        app.loader.import_default_modules()
    while not options.gate.exists():
        time.sleep(0.02)
    worker_ready.connect(lambda **_: options.ready.write_text(str(os.getpid())), weak=False)
    if options.beat:
        _start_beat()
    app.worker_main(_arguments(options))


def _parse() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--beat", action="store_true")
    parser.add_argument("--gate", type=Path, required=True, help="wait for this file first")
    parser.add_argument("--ready", type=Path, required=True, help="write the process id here")
    return parser.parse_args()


def _start_beat() -> None:
    """Run the beat as a thread. It has its schedule in memory."""
    beat = Service(app, max_interval=BEAT_LOOP_S, scheduler_cls=app.conf.beat_scheduler)
    Thread(target=beat.start, kwargs={"embedded_process": True}, daemon=True, name="beat").start()


def _arguments(options: Any) -> list[str]:
    """One box has no other workers to talk to: no gossip, no heartbeats to them."""
    return [
        "worker",
        f"--queues={options.queue}",
        f"--hostname={options.queue}@%h",
        "--pool=threads" if options.threads > 1 else "--pool=solo",
        f"--concurrency={options.threads}",
        "--loglevel=WARNING",  # of Celery's own lines: INFO is two for each task
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]


if __name__ == "__main__":
    main()
