"""The engines that tests run against: those of the environment, or our own for this run.

`python -m tests.support.engines COMMAND ...` runs a command with engines of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from skep_platform.onebox import engines

# Valkey databases of the xdist workers lie this far apart, so that runs which were given
# neighbouring databases of one server do not meet.
WORKER_STRIDE = 16


def prepare_environment() -> None:
    """Set every SKEP_ variable the settings need, starting both engines when none are given.
    Workers of xdist inherit the variables, and so the engines, of their controller."""
    os.environ.setdefault("SKEP_SECRET_KEY", "only-for-tests-0123456789-abcdefghijklmnop")
    # Tests name images that no registry has; those of this check turn it on.
    os.environ.setdefault("SKEP_CHECK_IMAGES", "off")
    os.environ["SKEP_DATA_DIR"] = str(_own_folder("data"))
    if not os.environ.get("SKEP_DATABASE_URL"):
        _start_engines()
    os.environ["SKEP_REDIS_URL"] = _own_database(os.environ["SKEP_REDIS_URL"])


def _start_engines() -> None:
    folder = _own_folder("engines")
    running = engines.RunningEngines(engines.prepare(folder, durable=False), folder)
    running.start()
    atexit.register(running.stop)
    os.environ["SKEP_DATABASE_URL"] = running.engines.postgres.url("skep")
    os.environ["SKEP_REDIS_URL"] = running.engines.valkey.url()


def _own_database(url: str) -> str:
    """An xdist worker flushes its database without emptying another's."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        return url
    parts = urlsplit(url)
    more = WORKER_STRIDE * (1 + int(worker.removeprefix("gw")))
    if parts.scheme == "unix":
        [number] = parse_qs(parts.query).get("db", ["0"])
        return parts._replace(query=f"db={int(number) + more}").geturl()
    return parts._replace(path=f"/{int(parts.path.strip('/') or 0) + more}").geturl()


def _own_folder(purpose: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"skep-test-{purpose}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # runs after the engines' stop
    return folder


if __name__ == "__main__":
    os.environ.pop("SKEP_DATABASE_URL", None)
    prepare_environment()
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
