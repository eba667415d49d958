"""Jobs of many kinds, drawn by a seed, and what has to become of each whatever happens to it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

SUCCEEDED, FAILED, STOPPED = "SUCCEEDED", "FAILED", "STOPPED"
ENDED = {SUCCEEDED, FAILED, STOPPED}
ASK_AGAIN_S = 0.3


@dataclass(slots=True)
class Job:
    """One job that was submitted. `expected` are the states that it may end in."""

    kind: str
    body: dict[str, Any]
    expected: set[str]
    stop_after_s: float | None = None
    id: str = ""
    submitted_at: float = 0.0  # by time.monotonic(), when the server had accepted it
    stop_sent: bool = False
    seen: str = ""  # its state when it was last looked at
    ended_at: float | None = None


@dataclass(slots=True)
class Draw:
    """What a kind of job is made from."""

    random: random.Random
    gpus_per_node: int
    nodes: int = 3
    earlier: list[Job] = field(default_factory=list)  # jobs that others can depend on

    def seconds(self, low: float, high: float) -> str:
        return f"run_for={self.random.uniform(low, high):.2f}"

    def lines(self, most: int) -> str:
        return f"log_lines={self.random.randint(1, most)}"


def _role(command: str, tasks: int = 1, gpus: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "instances": tasks,
        "dockerImage": "image",
        "resourcePerInstance": {"gpu": gpus, "cpu": 1, "memoryMB": 64},
        "commands": [f"mock {command}"],
        **more,
    }


def _body(role: dict[str, Any], **more: Any) -> dict[str, Any]:
    image = {"type": "dockerimage", "name": "image", "uri": "chaos/image:1"}
    return {"prerequisites": [image], "taskRoles": {"worker": role}, **more}


def _single(draw: Draw) -> Job:
    gpus = draw.random.randint(0, draw.gpus_per_node)
    role = _role(f"{draw.seconds(0, 2)} {draw.lines(50)}", gpus=gpus)
    return Job("single", _body(role), {SUCCEEDED})


def _gang(draw: Draw) -> Job:
    tasks, gpus = draw.random.randint(2, 3), draw.random.randint(1, draw.gpus_per_node)
    gpus = min(gpus, draw.nodes * draw.gpus_per_node // tasks)  # all that there are
    role = _role(f"{draw.seconds(1, 6)} {draw.lines(200)}", tasks, gpus)
    return Job("gang", _body(role), {SUCCEEDED})


def _chatty(draw: Draw) -> Job:
    words = f"{draw.seconds(2, 6)} log_lines={draw.random.randint(2000, 20000)} stderr_lines=500"
    return Job("chatty", _body(_role(words, 2)), {SUCCEEDED})


def _long(draw: Draw) -> Job:
    return Job("long", _body(_role(f"{draw.seconds(10, 20)} {draw.lines(300)}", 2)), {SUCCEEDED})


def _failing(draw: Draw) -> Job:
    role = _role(f"{draw.seconds(0, 2)} exit_code=3 {draw.lines(50)}")
    return Job("failing", _body(role, jobRetryCount=draw.random.randint(0, 2)), {FAILED})


def _retried(draw: Draw) -> Job:
    fails = draw.random.randint(1, 3)
    role = _role(f"{draw.seconds(0, 1)} fails={fails} {draw.lines(50)}", draw.random.randint(1, 2))
    return Job("retried", _body(role, jobRetryCount=fails), {SUCCEEDED})


def _opportunistic(draw: Draw) -> Job:
    extras = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
    role = _role(f"{draw.seconds(3, 8)} {draw.lines(100)}", 2, draw.random.randint(1, 2))
    return Job("opportunistic", _body(role, extras=extras), {SUCCEEDED})


def _urgent(draw: Draw) -> Job:
    """Preempts opportunistic ones where the cluster is full."""
    extras = {"hivedScheduler": {"jobPriorityClass": "prod"}}
    role = _role(f"{draw.seconds(1, 3)} {draw.lines(50)}", min(2, draw.nodes), draw.gpus_per_node)
    return Job("urgent", _body(role, extras=extras), {SUCCEEDED})


def _checkpoint(draw: Draw) -> Job:
    checkpoint = {"signal": "SIGUSR1", "grace": 3}
    extras: dict[str, Any] = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
    extras["skep"] = {"checkpoint": checkpoint, "stopGrace": 2}
    words = f"{draw.seconds(4, 8)} on_checkpoint=exit checkpoint_seconds=0.5 resumes=1"
    # Where the signal comes when nothing preempts it any more, exit code 0 is its end.
    return Job("checkpoint", _body(_role(words), extras=extras), {SUCCEEDED})


def _stopped(draw: Draw) -> Job:
    role = _role(f"run_for=forever stop_seconds=0.5 {draw.lines(50)}", draw.random.randint(1, 2))
    after = draw.random.uniform(0, 8)
    return Job("stopped", _body(role), {STOPPED}, stop_after_s=after)


def _too_long(draw: Draw) -> Job:
    extras = {"skep": {"maxDuration": draw.random.randint(2, 5), "stopGrace": 1}}
    return Job("over time", _body(_role("run_for=forever"), extras=extras), {FAILED})


def _server_and_workers(draw: Draw) -> Job:
    """The end of the workers is that of the job, and stops the server."""
    server = _role("run_for=forever", gpus=0)
    server["completion"] = {"minFailedInstances": 1, "minSucceededInstances": -1}
    workers = _role(f"{draw.seconds(1, 4)} {draw.lines(80)}", 2)
    workers["completion"] = {"minFailedInstances": 1, "minSucceededInstances": 2}
    body = _body(workers)
    body["taskRoles"]["server"] = server
    body["extras"] = {"skep": {"stopGrace": 1}}
    return Job("server", body, {SUCCEEDED})


def _incremental(draw: Draw) -> Job:
    role = _role(f"{draw.seconds(1, 3)} {draw.lines(50)}", draw.random.randint(3, 8))
    role["taskRetryCount"] = 2
    return Job("incremental", _body(role, extras={"gangAllocation": False}), {SUCCEEDED})


def _slow_image(draw: Draw) -> Job:
    words = f"pull_seconds={draw.random.randint(1, 4)} {draw.seconds(0, 1)} {draw.lines(20)}"
    return Job("slow image", _body(_role(words, 2)), {SUCCEEDED})


def _dependent(draw: Draw) -> Job:
    if not draw.earlier:
        return _single(draw)
    upstream = draw.random.choice(draw.earlier)
    condition = draw.random.choice(["afterok", "afterany", "after"])
    if condition == "afterok":
        expected = {SUCCEEDED} if upstream.expected == {SUCCEEDED} else {FAILED}
    else:  # what never started fails the one that waits for its start
        expected = {SUCCEEDED} if condition == "afterany" else {SUCCEEDED, FAILED}
    extras = {"skep": {"dependsOn": [{"job": upstream.id, "condition": condition}]}}
    role = _role(f"{draw.seconds(0, 1)} {draw.lines(20)}")
    return Job("dependent", _body(role, extras=extras), expected)


KINDS: tuple[tuple[int, Callable[[Draw], Job]], ...] = (
    (3, _single),
    (4, _gang),
    (2, _chatty),
    (2, _long),
    (1, _failing),
    (2, _retried),
    (2, _opportunistic),
    (1, _urgent),
    (1, _checkpoint),
    (2, _stopped),
    (1, _too_long),
    (1, _server_and_workers),
    (1, _incremental),
    (1, _slow_image),
    (2, _dependent),
)


class Workload:
    """Keeps about `active` jobs unfinished, follows all, and knows which was lost."""

    def __init__(self, api: httpx.Client, seed: int, nodes: int, gpus: int, active: int) -> None:
        self.jobs: list[Job] = []
        self.violations: list[str] = []
        self._api = api
        self._draw = Draw(random.Random(f"{seed} jobs"), gpus, nodes)
        self._active = active
        self._seed = seed
        self._pending: Job | None = None  # sent, and it is not known whether it was accepted
        self._number = 0

    @property
    def unfinished(self) -> list[Job]:
        return [job for job in self.jobs if job.ended_at is None]

    def step(self, *, submit: bool = True) -> None:
        """Do one round: submit, stop, look. What the server cannot answer now is tried again in a
        later one. Raises httpx.TransportError while there is no server."""
        while submit and len(self.unfinished) < self._active:
            if not self._submit():
                break
        for job in self.unfinished:
            self._stop_if_due(job)
        self._look()

    def submit(self, job: Job) -> bool:
        """Submit this one; returns whether it was accepted. May be repeated."""
        if not job.body.get("name"):
            self._number += 1
            name = f"{job.kind.replace(' ', '-')}-{self._seed}-{self._number}"
            job.body |= {"protocolVersion": 2, "type": "job", "name": name}
        headers = {"Idempotency-Key": job.body["name"]}
        answer = self._api.post("/jobs", json=job.body, headers=headers)
        if answer.status_code in (200, 201):
            job.id, job.submitted_at = answer.json()["id"], time.monotonic()
            return True
        if answer.status_code < 500 and answer.status_code != 429:
            self._pending = None
            # The job that it depends on has failed already, and rightly so.
            if "dependency_never_holds" not in answer.text:
                text = f"submit of {job.body['name']} was refused: {answer.text[:300]}"
                self.violations.append(text)
        return False

    def _submit(self) -> bool:
        job = self._pending
        if job is None:
            weights, kinds = zip(*KINDS, strict=True)
            [kind] = self._draw.random.choices(kinds, weights)
            job = self._pending = kind(self._draw)
        if not self.submit(job):
            return False
        self._pending = None
        self.jobs.append(job)
        if job.kind in ("single", "gang", "failing"):
            self._draw.earlier = [*self._draw.earlier[-10:], job]
        return True

    def _stop_if_due(self, job: Job) -> None:
        due = job.stop_after_s
        if due is None or job.stop_sent or time.monotonic() < job.submitted_at + due:
            return
        answer = self._api.post(f"/jobs/{job.id}/stop")
        job.stop_sent = answer.is_success

    def _look(self) -> None:
        for job in self.unfinished:
            answer = self._api.get(f"/jobs/{job.id}")
            if answer.status_code == 404:
                self.violations.append(f"job {job.body['name']} was accepted and is not there")
                job.ended_at = time.monotonic()
            if not answer.is_success:
                continue
            found = answer.json()
            job.seen = found["state"]
            if job.seen in ENDED:
                job.ended_at = time.monotonic()
                if job.seen not in job.expected:
                    why = found.get("exit_reason")
                    text = f"job {job.body['name']} ({job.id}) ended {job.seen}: {why}"
                    self.violations.append(text)
