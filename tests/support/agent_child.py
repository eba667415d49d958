"""A real agent: a process of its own, which can be stopped and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from skep_agent.statedir import Identity, StateDir


class AgentChild:
    """The agent of node "n1" on this machine's Docker engine, without GPUs."""

    def __init__(self, state: Path, server: str, cluster: str, engine: str = "") -> None:
        self.state = state
        StateDir(state).save(Identity(server, "n1", "id-n1", cluster, "secret-n1"))
        self._environment = {
            **os.environ,
            **({"DOCKER_HOST": f"unix://{engine}"} if engine else {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.state / "agent.log").open("ab")
        command = "run", f"--state={self.state}", "--gpus=0", "--cpus=8", "--memory-mb=4096"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "skep_agent", *command, "--address=127.0.0.1"],
            stdout=log,
            stderr=log,
            env=self._environment,
        )
        log.close()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send it, and wait until the process is gone."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end()
