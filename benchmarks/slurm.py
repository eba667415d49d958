"""A real Slurm on this machine, to compare with: Debian's `slurmctld`, `slurmd`, `slurm-client` and
`munge`.

It has one node with a CPU for each slot, no accounting, and the settings that Slurm's guide to high
throughput names (https://slurm.schedmd.com/high_throughput.html). Its files are in a temporary
folder. It starts and stops with the benchmark, whatever Slurm the machine runs otherwise.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.usage import cpu_seconds
from tests.support.ports import free_port
from tests.support.stack import eventually

PACKAGES = "slurmctld, slurmd, slurm-client and munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
# Daemons lie there, where the PATH of a user without privileges does not look.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
READY_WITHIN_S = 60.0
ENDS_WITHIN_S = 300.0
CONFIG = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimits=NONE
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MaxJobCount=100000
MinJobAge=3600
NodeName=bench NodeHostname={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=bench Nodes=bench Default=YES State=UP MaxTime=INFINITE
"""


@dataclass(frozen=True, slots=True)
class Slurm:
    """A Slurm that runs. `controller` are the process ids of what serves all nodes."""

    folder: Path
    controller: tuple[int, ...]

    def run(self, name: str, *options: str) -> str:
        """Run a command of Slurm and return what it prints. Raises CalledProcessError."""
        done = subprocess.run(
            [_program(name), *options],
            env=_environment(self.folder),
            cwd="/",
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout

    def count(self, state: str) -> int:
        return len(self.run("squeue", "-h", "-o%i", f"--states={state}").split())


@dataclass(frozen=True, slots=True)
class SlurmFigures:
    """Jobs per second, and the CPU time of the controller in milliseconds for each job."""

    submitted: float
    finished: float
    controller_cpu_ms: float


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


def measure(jobs: int, clients: int, slots: int) -> SlurmFigures:
    """Submit jobs that run `true` by `sbatch`, from so many clients at a time, and wait until all
    have ended. Raises RuntimeError when one has not succeeded."""
    with _slurm(slots) as slurm:
        _submit(slurm, 10, clients)
        _until_ended(slurm)
        cpu, start = cpu_seconds(slurm.controller), time.perf_counter()
        _submit(slurm, jobs, clients)
        accepted = time.perf_counter() - start
        _until_ended(slurm)
        elapsed = time.perf_counter() - start
        cpu = cpu_seconds(slurm.controller) - cpu
        succeeded = slurm.count("COMPLETED")
    if succeeded != jobs + 10:
        raise RuntimeError(f"{succeeded} of {jobs + 10} jobs of Slurm succeeded")
    return SlurmFigures(jobs / accepted, jobs / elapsed, 1000 * cpu / jobs)


def _submit(slurm: Slurm, jobs: int, clients: int) -> None:
    def one(number: int) -> None:
        slurm.run("sbatch", "--parsable", f"-Jburst-{number}", "-n1", "-o/dev/null", "--wrap=true")

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(jobs)))


def _until_ended(slurm: Slurm) -> None:
    unfinished = "PENDING,RUNNING,COMPLETING"
    eventually(lambda: not slurm.count(unfinished), ENDS_WITHIN_S, every_s=0.1)


@contextmanager
def _slurm(slots: int) -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="skep-bench-slurm-", ignore_cleanup_errors=True) as at:
        folder = Path(at)
        _configure(folder, slots)
        started: list[subprocess.Popen[bytes]] = []
        try:
            for command in _daemons(folder):
                started.append(_start(folder, command))
            slurm = Slurm(folder, tuple(daemon.pid for daemon in started[:2]))
            eventually(lambda: _is_ready(slurm), READY_WITHIN_S, lambda: _logs(folder), every_s=0.2)
            yield slurm
        finally:
            for daemon in reversed(started):
                daemon.terminate()
                daemon.wait(30)


def _configure(folder: Path, slots: int) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    text = CONFIG.format(
        host=socket.gethostname().partition(".")[0],
        controller_port=free_port(),
        node_port=free_port(),
        user=getpass.getuser(),
        folder=folder,
        slots=slots,
    )
    (folder / "slurm.conf").write_text(text)


def _daemons(folder: Path) -> list[list[str]]:
    """Return the commands of munge, of the controller and of the node, in the foreground."""
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{name}={folder}/munge.{end}" for name, end in files.items()]
    options += [f"--log-file={folder}/munge.log", "--foreground", "--force"]
    return [["munged", *options], ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-Nbench"]]


def _start(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    log = (folder / f"{command[0]}.out").open("wb")
    with log:
        return subprocess.Popen(
            [_program(command[0]), *command[1:]],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _is_ready(slurm: Slurm) -> bool:
    try:
        return slurm.run("sinfo", "-h", "-o%T").strip() == "idle"
    except subprocess.CalledProcessError:
        return False


def _logs(folder: Path) -> str:
    files = [*folder.glob("*.log"), *folder.glob("*.out")]
    return "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in files)


def _program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        raise RuntimeError(f"{name} is not installed; install {PACKAGES}")
    return found


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
