"""A cluster in the middle of a working day, made through the API of a running Skep.

It has teams, people in every role, jobs in every state, storages, data sets and templates, and what
was used in the last weeks.

The pictures of the documentation and the scenario that opens every page as every role show it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import yaml
from tests.support.stack import Stack, eventually

PASSWORD = "many-busy-bees"
ADMIN = "mei"
ROLES = {"mei": "member", "ada": "admin", "bob": "member", "ola": "member", "kim": "viewer"}
GPUS = {"default": 12, "vision": 12, "speech": 8}  # of 32; of fewer, as large a part
ABOUT = {"vision": "Image and video models", "speech": "Speech recognition and synthesis"}
HOUR_US = 3_600_000_000
LONG_NAME = "wav2vec-finetune-on-a-corpus-with-a-rather-long-name-2026-11"

TRAIN = """\
busybox awk 'BEGIN {{ srand({seed}); for (step = 1; step <= {steps}; step++) {{
  part = {pace} / ({pace} + step); part *= part
  loss = 1.35 + 6.2 * part + 0.16 * rand()
  top1 = 0.78 * (1 - part) + 0.02 * rand()
  rate = 2900 + step % 90
  printf "step %d lr={lr} loss=%.4f top1=%.3f rate=%d img/s\\n", step, loss, top1, rate
  if (step > 600) {{ fflush(); system("sleep 2") }}
}} }}'"""
OUT_OF_MEMORY = """\
echo 'step 118 loss 2.417'
echo 'Traceback (most recent call last):' >&2
echo '  File "/workspace/train.py", line 212, in forward' >&2
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.' >&2
exit 1"""
SLEEP = "sleep 3600"
UNREACHABLE = "echo no route to host >&2; exit 7"


def train(seed: int = 1, pace: int = 300, lr: str = "1e-3", steps: int = 20000) -> str:
    return TRAIN.format(seed=seed, pace=pace, lr=lr, steps=steps)


class Sample:
    """Fills the Skep of a `stack`. `jobs` has the id of each job by its name."""

    def __init__(self, skep: Stack, image: str, storage: Path) -> None:
        self.skep, self.image, self.storage = skep, image, storage
        self.jobs: dict[str, str] = {}
        self.simulation = self.dataset = ""
        self.gpus, self.cpus = 32, 1

    def fill(self) -> None:
        with self.skep.api() as self.admin:
            self._people()
            self._catalogue()
            self._past()
            self._running()
            self._waiting()
            self._announce()

    @property
    def names(self) -> dict[str, str]:
        """What a scenario needs to open pages, by name."""
        return {**self.jobs, "simulation": self.simulation, "dataset": self.dataset}

    def _send(self, method: str, path: str, body: Any = None, *, by: str = "") -> Any:
        client = self._as(by) if by else self.admin
        answer = client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else None

    # -- people, teams and what they may use

    def _people(self) -> None:
        admin = self.admin
        known = {user["username"] for user in admin.get("/users").json()["results"]}
        for name in ROLES:
            if name not in known:
                user = {"username": name, "password": PASSWORD, "is_admin": name == ADMIN}
                self._send("POST", "/users", user)
        for vc, about in ABOUT.items():
            team = {"name": vc, "description": about}
            self._send("POST", "/virtual-clusters", team)
        for vc in GPUS:
            for name, role in ROLES.items():
                path = f"/virtual-clusters/{vc}/members/{name}"
                self._send("PUT", path, {"role": role})
        models = admin.get("/cluster").json()["gpus"]
        self.gpus = sum(model["total"] for model in models.values())
        model = next(iter(models))
        for vc, gpus in GPUS.items():  # the default one, which owns all, gives first
            quotas = {"quotas": {model: gpus * self.gpus // 32}}
            self._send("PUT", f"/virtual-clusters/{vc}/quotas", quotas)
        groups = {"research": ("bob", "ola"), "annotators": ("kim",)}
        for group, members in groups.items():
            about = {"research": "Reads all data sets", "annotators": "Labels the videos"}[group]
            self._send("POST", "/groups", {"name": group, "description": about})
            for member in members:
                self._send("PUT", f"/groups/{group}/members/{member}")
        self.tokens = {name: self._token(name) for name in ROLES}
        account = {"name": "ci", "description": "Nightly evaluation"}
        self._send("POST", "/virtual-clusters/vision/service-accounts", account, by="ada")
        self._send("PUT", "/virtual-clusters/vision/limits/gpus_per_user", {"value": 12}, by="ada")
        self._send("PUT", "/virtual-clusters/vision/budget", {"gpu_hours": 4000})

    def _token(self, name: str) -> str:
        login = {"username": name, "password": PASSWORD, "name": "laptop"}
        return str(self._send("POST", "/auth/token", login)["token"])

    def _as(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=f"{self.skep.url}/api/v1", headers=headers, timeout=60)

    def _catalogue(self) -> None:
        about = {"description": "Python and a shell", "framework": "Python 3"}
        demo = {"name": "demo", "reference": self.image, **about}
        self._send("POST", "/images", demo)
        for folder in ("imagenet-mini/train", "imagenet-mini/val", "checkpoints", "runs"):
            (self.storage / "vision-data" / folder).mkdir(parents=True, exist_ok=True)
        for part, pictures in {"train": 40, "val": 10}.items():
            for each in range(pictures):
                file = self.storage / "vision-data/imagenet-mini" / part / f"{each:04}.tar"
                file.write_bytes(bytes(100_000 + 997 * each))
        for name, size in {"labels.csv": 48_211, "README.md": 1_204, "classes.txt": 10_462}.items():
            (self.storage / "vision-data" / name).write_bytes(b"x" * size)
        storages: dict[str, dict[str, Any]] = {
            "vision-data": {
                "type": "host_path",
                "data": {"path": str(self.storage / "vision-data")},
                "description": "Pictures, labels and checkpoints",
            },
            "homes": {
                "type": "nfs",
                "data": {"server": "nfs.example.org", "path": "/export/homes"},
                "description": "A folder for each user",
                "per_user": True,
            },
        }
        for name, storage in storages.items():
            self._send("POST", "/storages", {"name": name, **storage})
            for vc in ("vision", "default"):
                self._send("PUT", f"/storages/{name}/grants/{vc}", {})
        self._send("PUT", "/storages/vision-data/groups/annotators", {"read_only": True})
        for version in ("2025-11", "2026-03"):
            about = {"version": version, "description": "100 classes, 130,000 pictures of 224 px"}
            where = {"virtual_cluster": "vision", "storage": "vision-data", "path": "imagenet-mini"}
            made = self._send(
                "POST", "/datasets", {"name": "imagenet-mini", **about, **where}, by="ada"
            )
            self.dataset = made["id"]
        template = {
            "name": "vit-finetune",
            "title": "Fine-tune a vision transformer",
            "description": "One node; reads imagenet-mini and writes checkpoints to vision-data.",
            "virtual_cluster": "vision",
            "text": self._file("vit-finetune", vc="vision", command="python train.py", gpu=4),
        }
        self._send("POST", "/templates", template, by="ada")

    # -- jobs

    def _submit(self, user: str, name: str, **values: Any) -> None:
        answer = self._as(user).post(
            "/jobs",
            content=self._file(name, **values),
            headers={"Content-Type": "application/yaml"},
        )
        assert answer.is_success, answer.text
        self.jobs[name] = answer.json()["id"]

    def _file(
        self,
        name: str,
        vc: str,
        command: str,
        gpu: int,
        *,
        tasks: int = 1,
        role: str = "worker",
        priority: str = "test",
        retries: int = 0,
        skep: dict[str, Any] | None = None,
        tags: tuple[str, ...] = (),
    ) -> str:
        gpu = max(min(gpu, 1), gpu * self.gpus // 32)
        size = {"gpu": gpu, "cpu": self.cpus, "memoryMB": 256 * self.cpus}
        file = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "jobRetryCount": retries,
            "prerequisites": [{"type": "dockerimage", "name": "image", "uri": self.image}],
            "taskRoles": {
                role: {
                    "instances": tasks,
                    "dockerImage": "image",
                    "resourcePerInstance": size,
                    "commands": [command],
                }
            },
            "defaults": {"virtualCluster": vc},
            "extras": {
                "hivedScheduler": {"jobPriorityClass": priority},
                "tags": list(tags),
                "skep": skep or {},
            },
        }
        return yaml.safe_dump(file, sort_keys=False)

    def _running(self) -> None:
        submit = self._submit
        own = {"metrics": ["loss", "top1"]}
        submit("ada", "tokenizer-fit", vc="speech", command="echo fitted 32,000 pieces", gpu=1)
        submit("ada", "resnet50-sweep-lr3e-4", vc="vision", command=OUT_OF_MEMORY, gpu=2)
        submit("bob", "typo", vc="default", command="pyhton train.py", gpu=1)
        submit("bob", "flaky-download", vc="default", command=UNREACHABLE, gpu=0, retries=9)
        submit("mei", "cancelled-run", vc="default", command=SLEEP, gpu=1)
        for number, (lr, pace) in enumerate((("1e-3", 220), ("3e-3", 90)), 1):
            command = train(number, pace, lr, steps=400)
            name, sweep = f"vit-s-lr{lr}", ("lr-sweep",)
            submit("ada", name, vc="vision", command=command, gpu=1, skep=own, tags=sweep)
        for name in ("tokenizer-fit", "vit-s-lr1e-3", "vit-s-lr3e-3"):
            self._reach(name, "SUCCEEDED")
        submit(
            "ada",
            "vit-l-pretrain",
            vc="vision",
            command=train(),
            gpu=4,
            tasks=3,
            skep={**own, "duration": "25m"},
            tags=("pretrain", "nightly"),
        )
        app = {"name": "jupyterlab", "type": "web", "port": 8888}
        serve = "busybox httpd -f -p 8888"
        submit("mei", "notebook", vc="default", command=serve, gpu=1, skep={"apps": [app]})
        submit("bob", LONG_NAME, vc="speech", command=train(2), gpu=8, skep={"duration": "2h"})
        submit("ola", "evaluate", vc="speech", command=SLEEP, gpu=1, tasks=4, priority="oppo")
        self._reach("vit-l-pretrain", "RUNNING")
        self._reach("notebook", "RUNNING")
        self._reach("resnet50-sweep-lr3e-4", "FAILED")
        self._reach("typo", "FAILED")
        self._send("POST", f"/jobs/{self.jobs['cancelled-run']}/stop")

    def _waiting(self) -> None:
        submit, hint = self._submit, "duration"
        submit("ada", "vit-h-pretrain", vc="vision", command=train(3), gpu=8, skep={hint: "40m"})
        submit("ola", "distill", vc="vision", command=train(4), gpu=2, tasks=2, skep={hint: "15m"})
        submit("bob", "vit-b-ablation", vc="vision", command=train(5), gpu=4, skep={hint: "30m"})
        submit("ola", "conformer-large", vc="speech", command=train(6), gpu=8, priority="prod")
        submit("mei", "whole-quota", vc="default", command=train(7), gpu=4, tasks=3)

    def _reach(self, name: str, state: str) -> None:
        path = f"/jobs/{self.jobs[name]}"
        eventually(lambda: self.admin.get(path).json()["state"] == state, 240)

    # -- what was before, and what is announced

    def _past(self) -> None:
        """Write what eight weeks left behind: no API makes the past."""
        with psycopg.connect(self.skep.database_url) as database:
            users = dict(database.execute("SELECT username, id FROM accounts_user").fetchall())
            vcs = dict(database.execute("SELECT name, id FROM tenancy_virtualcluster").fetchall())
            model = next(iter(self.admin.get("/cluster").json()["gpus"]))
            cursor = database.cursor()
            cursor.executemany(
                "INSERT INTO usage_usageday"
                " (day, user_id, vc_id, gpu_model, guaranteed, allocated_us, used_us, known_us)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    (day, users[user], vcs[vc], model, guaranteed, *hours)
                    for day, user, vc, guaranteed, hours in _usage()
                ],
            )
            cursor.executemany(
                "INSERT INTO telemetry_predictionday (day, source, jobs, intervals, within, errors)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                list(_predictions()),
            )
            parts = {vcs[vc]: gpus * self.gpus // 32 for vc, gpus in GPUS.items()}
            cursor.executemany(
                "INSERT INTO scheduling_vcuse (vc_id, gpu_model, at, owned, used, borrowed, lent,"
                " bad, unavailable, waiting) VALUES (%s, %s, %s, %s, %s, %s, %s, 0, 0, %s)",
                [(vc, model, *row) for vc, owned in parts.items() for row in _samples(owned)],
            )

    def _announce(self) -> None:
        text = {"message": "Node 4 gets a new fan on Tuesday at 9:00. Jobs on it move before."}
        self._send("POST", "/announcements", text)
        nodes = [node["name"] for node in self.admin.get("/nodes").json()["results"]]
        reason = {"reason": "Fan 3 is replaced on Tuesday"}
        self._send("POST", f"/nodes/{nodes[-1]}/cordon", reason)
        question = {"source": "made_up", "jobs": 120, "policies": ["priority_ageing", "srtf"]}
        made = self._send("POST", "/simulations", question)
        self.simulation = made["id"]
        path = f"/simulations/{self.simulation}"
        eventually(lambda: self.admin.get(path).json()["state"] == "SUCCEEDED", 180)


def _days() -> Iterator[date]:
    today = datetime.now(UTC).date()
    return (today - timedelta(days=ago) for ago in range(60, 0, -1))


def _usage() -> Iterator[tuple[date, str, str, bool, tuple[int, int, int]]]:
    shuffle = random.Random(8)
    users = {"ada": ("vision", 70, 0.86), "bob": ("speech", 58, 0.64)}
    users |= {"ola": ("vision", 34, 0.41), "mei": ("default", 20, 0.11)}
    for day in _days():
        weekday = 1.0 if day.weekday() < 5 else 0.35
        for user, (vc, hours, share) in users.items():
            for guaranteed, part in ((True, 0.8), (False, 0.2)):
                spread = shuffle.uniform(0.6, 1.25) * weekday * part
                allocated = round(hours * spread * HOUR_US)
                used = round(allocated * min(0.98, share * shuffle.uniform(0.85, 1.1)))
                yield day, user, vc, guaranteed, (allocated, used, round(allocated * 0.99))


def _samples(owned: int) -> Iterator[tuple[datetime, int, int, int, int, int]]:
    """When, and how many GPUs a virtual cluster owned, used, borrowed and lent, and how many its
    queue asked for: a quarter of an hour each, busy by day and on weekdays."""
    shuffle = random.Random(owned)
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=29)
    for quarter in range(29 * 96):
        at = first + timedelta(minutes=15 * quarter)
        busy = (0.75 if 8 <= at.hour < 20 else 0.45) * (1 if at.weekday() < 5 else 0.6)
        used = min(owned, round(owned * busy * shuffle.uniform(0.8, 1.5)))
        full = used == owned
        borrowed = shuffle.randrange(owned // 2 + 1) if full else 0
        lent = 0 if full else shuffle.randrange(owned - used)
        yield at, owned, used, borrowed, lent, shuffle.randrange(owned) if full else 0


def _predictions() -> Iterator[tuple[date, str, int, int, int, list[int]]]:
    shapes = {
        "name": (14, [2, 3, 3, 2, 1, 1, 1, 0, 1, 0, 0, 0, 0]),
        "command": (6, [0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0]),
        "gpus": (9, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]),
        "": (3, [0] * 13),
    }
    for day in _days():
        for source, (jobs, errors) in shapes.items():
            intervals = jobs - 1 if source else 0
            within = math.floor(intervals * 0.85)
            yield day, source, jobs, intervals, within, errors
