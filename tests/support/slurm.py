"""Batch scripts of Slurm, run as the entrypoints of their tasks would run them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path

from tests.support.ports import free_port

from skep_jobfile import compile_job
from skep_jobfile.importers import convert


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {
        "PATH": os.environ["PATH"],
        "SKEP_JOB_ID": "77",
        "PAI_TASK_INDEX": "1",
        "PAI_TASK_ROLE_worker_HOST_LIST": "10.0.0.1:8000,10.0.0.2:8001",
        "RANK": "1",
        "WORLD_SIZE": "2",
    }
    return subprocess.run(
        ["/bin/sh", "-c", script],
        env={**ours, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def entrypoint(text: str) -> str:
    script: str = compile_job(convert(text).text)["entrypoints"]["worker"]
    return script


def over_nodes(text: str, folder: Path, nodes: int) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of the job's entrypoint on each of its nodes, all at once."""
    return over_roles(text, folder, {"worker": nodes})


def over_roles(text: str, folder: Path, sizes: dict[str, int]) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of each task of these roles, all at once."""
    scripts = compile_job(convert(text).text)["entrypoints"]
    assert scripts.keys() == sizes.keys()
    (folder / "key").write_text("the private key of the gang")
    ports = enumerate((free_port() for _ in range(sum(sizes.values()))), 1)
    hosts = {
        role: [f"127.0.0.{n}:{port}" for n, port in itertools.islice(ports, size)]
        for role, size in sizes.items()
    }
    lists = {f"PAI_TASK_ROLE_{role}_HOST_LIST": ",".join(own) for role, own in hosts.items()}
    tasks = [(scripts[role], index) for role, size in sizes.items() for index in range(size)]
    running = [
        subprocess.Popen(
            ["/bin/sh", "-c", script],
            env={
                "PATH": os.environ["PATH"],
                "TMPDIR": str(folder),
                "SKEP_JOB_ID": "0193a1f0-aaaa-7000-8000-0000000000ff",
                "SKEP_STEP_KEY": str(folder / "key"),
                "PAI_TASK_INDEX": str(index),
                **lists,
                "NVIDIA_VISIBLE_DEVICES": f"GPU-of-{n}",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for n, (script, index) in enumerate(tasks)
    ]
    try:
        printed = [one.communicate(timeout=60) for one in running]
    finally:
        for one in running:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
    return [(one.returncode, *texts) for one, texts in zip(running, printed, strict=True)]
