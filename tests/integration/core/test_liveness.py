"""What the probes of workers and beat look at: that they go round, also without the broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.gateway_server import wait_until
from tests.support.ports import free_port
from tests.support.worker_process import BEAT, SCHEDULER, START_S, WORKER, CeleryProcess

pytestmark = pytest.mark.django_db(transaction=True)


def turns(file: Path) -> None:
    """Return once the process has touched the file, and then once more."""
    for _ in range(2):
        file.unlink(missing_ok=True)
        wait_until(file.exists, f"{file.name} is touched", START_S)


@pytest.mark.parametrize("part", [SCHEDULER, WORKER, BEAT], ids=["scheduler", "worker", "beat"])
def test_a_process_shows_that_it_goes_round_with_and_without_a_broker(part, tmp_path):
    alive = tmp_path / "alive"
    with CeleryProcess(part, SKEP_LIVENESS_FILE=str(alive)):
        turns(alive)
    away = f"redis://127.0.0.1:{free_port()}"
    with CeleryProcess(part, SKEP_LIVENESS_FILE=str(alive), SKEP_REDIS_URL=away) as process:
        process.wait_for("Trying again in")
        turns(alive)
