"""Attempts as nodes get them, from their rows: a constant number of queries, however many.

Tasks of an incremental job start when they find a place, each for itself: each gets a gang of
which it is the only member.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db.models import Q

from skep_agent import protocol, tracing
from skep_agent.protocol import (
    AttemptSpec,
    FileSpec,
    ImageSpec,
    SharedSpec,
    WorkingFiles,
)
from skep_jobfile.budget import TooMuchText
from skep_jobfile.secret_values import masks_of
from skep_platform.accounts import ssh_keys
from skep_platform.core import encryption
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.encryption import DecryptionFailed
from skep_platform.images import credentials, rules
from skep_platform.images.credentials import StoredLogins
from skep_platform.jobs.containers import gang, mounts
from skep_platform.jobs.containers.environment import Environments
from skep_platform.jobs.containers.gang import Block, Gang, Member, hostname
from skep_platform.jobs.containers.job_secrets import Secrets
from skep_platform.jobs.containers.mounts import Mounts
from skep_platform.jobs.models import GangNetwork, Job, TaskAttempt, TaskRole
from skep_platform.tenancy.limits import limits_of_many

log = structlog.get_logger(__name__)

LIMITS = ("container_disk_mb", "log_bytes_per_job", "latest_images")
LOCALHOST = "127.0.0.1"
SSH_PLUGIN = "ssh"
OWN_KEYS = "system"  # as `userssh.type`, in OpenPAI's word: the keys of the job's owner
UNLIMITED = -1
# Of a job that asked for an API token; the command line `skep` reads them.
TOKEN_VARIABLE, URL_VARIABLE = "SKEP_TOKEN", "SKEP_URL"
Row = Mapping[str, Any]

ATTEMPT: tuple[str, ...] = (
    *("id", "job_id", "index", "epoch", "role_id", "task__index", "task__rank", "node_id"),
    *("gpu_uuids", "network", "address", "ports", "node__address", "node__name"),
    "node__inner_mounts",
    "node__s3_mounts",
    "created_at",
)
JOB: tuple[str, ...] = (
    *("id", "name", "owner_id", "owner__username", "vc_id", "vc__name", "tasks_total"),
    *("stop_grace_s", "checkpoint_signal", "checkpoint_grace_s", "environment", "work_dir"),
    *("incremental", "spec__extras", "trace_parent", "secrets__sealed", "api_token__sealed"),
    *("files__archive__sha256", "files__archive__size"),
)
NEEDS: tuple[str, ...] = (
    *("name", "instances", "gpus", "cpu_millis", "memory_mb", "shm_mb"),
    *("min_failed", "min_succeeded"),
)
ROLE: tuple[str, ...] = ("id", "job_id", "image", "command", "rdma", *NEEDS)


ATTEMPTS = Compiled(lambda: TaskAttempt.objects.filter(Among("pk", "attempts")), *ATTEMPT)
JOBS = Compiled(lambda: mounts.with_home(Job.objects.filter(Among("pk", "jobs"))), *JOB, "home")
ROLES = Compiled(lambda: TaskRole.objects.filter(Among("job", "jobs")).order_by("position"), *ROLE)


@dataclass(frozen=True, slots=True)
class BuiltSpec:
    """A spec, and what it shares with the others of its gang. `size`: of both as JSON, in bytes,
    what is shared in equal parts. `text`, `shared_text`: the two as JSON."""

    spec: AttemptSpec
    shared: SharedSpec | None
    size: int
    text: str = field(repr=False)
    shared_text: str = field(repr=False)
    # Code and message of why the attempt may not start; what runs already goes on.
    refusal: tuple[str, str] | None = None
    # Storages whose keys it has, and when they were changed last.
    buckets: Mapping[UUID, datetime] = field(default_factory=dict)

    def traced(self, trace_parent: str) -> BuiltSpec:
        """Return it with the span under which its agent records its own; "": there is none."""
        if not trace_parent:
            return self
        spec = self.spec.model_copy(update={"trace_parent": trace_parent})
        size = self.size + len(trace_parent)
        return replace(self, spec=spec, size=size, text=spec.model_dump_json())


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """An attempt without a spec. `refusal`: code and message with which it fails unless it runs
    already; None where a server with other keys may have the spec."""

    refusal: tuple[str, str] | None


LOCKED = NotBuilt(None)
BROKEN = NotBuilt(
    (
        "spec_refused",
        "The server failed to put together what its node has to run; the log of the gateway has "
        "the reason under the id of the job.",
    )
)


def build(attempts: Collection[UUID]) -> dict[UUID, BuiltSpec | NotBuilt]:
    """Return the specs of these attempts, by id. Where one cannot be built, as secrets cannot be
    opened or by a defect of ours, no other task of the node suffers."""
    rows = ATTEMPTS.dicts(attempts=list(attempts))
    jobs = _jobs({row["job_id"] for row in rows})
    gangs: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row["job_id"] in jobs:
            gangs[_key(row, jobs)].append(row)
    peers = _peers(gangs, jobs)
    networks = _networks(gangs)
    specs: dict[UUID, BuiltSpec | NotBuilt] = {
        row["id"]: LOCKED for row in rows if row["job_id"] not in jobs
    }
    for key, mine in gangs.items():
        try:
            specs |= _of_gang(key, mine, jobs[key[0]], peers[key], networks.get(key[:2]))
        except Exception:
            log.exception("spec_not_built", job_id=str(key[0]), index=key[1])
            specs |= {row["id"]: BROKEN for row in mine}
    return specs


def _of_gang(
    key: Key, mine: Sequence[Row], job: _Job, peers: Sequence[Row], network: GangNetwork | None
) -> dict[UUID, BuiltSpec]:
    try:
        built = _Builder(key, job, peers, network).build(mine)
    except TooMuchText:  # a job of before its rendered size was counted at submit
        plain = replace(job, secrets=Secrets())
        built = _Builder(key, plain, peers, network).build(mine)
        built = {pk: replace(one, size=sys.maxsize) for pk, one in built.items()}
    return {row["id"]: built[row["id"]].traced(_trace(row, job.row)) for row in mine}


def _trace(row: Row, job: Row) -> str:
    """Record how long a placement took to become a message to its node, where its job is traced.
    Return the parent of the agent's spans: "" without tracing."""
    if not job["trace_parent"]:
        return ""
    ids = {"job": job["id"], "attempt": row["id"], "node": row["node_id"]}
    about = {f"skep.{name}.id": str(found) for name, found in ids.items()}
    about["skep.node.name"] = row["node__name"]
    parent, placed_at = job["trace_parent"], row["created_at"]
    with tracing.span("attempt.send", parent, about, start=placed_at) as span:
        return span.traceparent


@dataclass
class _Job:
    row: Row
    roles: dict[int, Row]  # in the order of the job file
    secrets: Secrets
    limits: Mapping[str, int]  # of its virtual cluster
    logins: StoredLogins  # of its owner and its virtual cluster, among others
    patterns: list[str]  # of the images that its virtual cluster allows
    mounts: Mounts
    own_keys: Sequence[str] = ()  # ssh keys of its owner, where it asks for them

    @property
    def starts_alone(self) -> bool:
        return self.row["tasks_total"] == 1 or self.row["incremental"]

    @cached_property
    def extras(self) -> Row:
        return self.row["spec__extras"] or {}

    def ssh_plugins(self, role: str = "") -> list[Row]:
        """Return its entries of the ssh plugin, or those for one role."""
        plugins = ssh_plugins(self.extras)
        return [p for p in plugins if not role or role in (p.get("taskroles") or [role])]

    def public_keys(self) -> list[str]:
        """Return the keys of the users that may log in (parameter `userssh`), one each line: those
        that the job file lists, and those of its owner where it asks for them."""
        texts = [u.get("value") for u in user_ssh(self.extras)]
        listed = [line for text in texts if isinstance(text, str) for line in text.splitlines()]
        return [*listed, *self.own_keys]

    def working_files(self) -> WorkingFiles | None:
        sha256 = self.row["files__archive__sha256"]
        asked = (self.extras.get("skep") or {}).get("workingFiles") or {}
        if sha256 is None or not asked.get("path"):
            return None
        size = self.row["files__archive__size"]
        return WorkingFiles(sha256=sha256, size=size, path=asked["path"])


def ssh_plugins(extras: Row) -> list[Row]:
    """Return the entries of the ssh plugin."""
    plugins = extras.get("com.microsoft.pai.runtimeplugin", [])
    return [p for p in plugins if p["plugin"] == SSH_PLUGIN]


def user_ssh(extras: Row) -> list[Row]:
    """Return the parameters `userssh`, which say whose keys may log in."""
    asked = [p.get("parameters") for p in ssh_plugins(extras)]
    found = [one.get("userssh") for one in asked if isinstance(one, Mapping)]
    return [one for one in found if isinstance(one, Mapping)]


def _wants_own_keys(row: Row) -> bool:
    return any(one.get("type") == OWN_KEYS for one in user_ssh(row["spec__extras"] or {}))


def _jobs(ids: Collection[UUID]) -> dict[UUID, _Job]:
    roles: dict[UUID, dict[int, Row]] = defaultdict(dict)
    for role in ROLES.dicts(jobs=list(ids)):
        roles[role["job_id"]][role["id"]] = role
    found = {}
    rows = JOBS.dicts(jobs=list(ids))
    vcs = {row["vc_id"] for row in rows}
    limits = limits_of_many(vcs, *LIMITS)
    logins = credentials.read({row["owner_id"] for row in rows}, vcs)
    patterns = rules.of_many(vcs)
    mounted = mounts.of(rows)
    keys = ssh_keys.of_many({row["owner_id"] for row in rows if _wants_own_keys(row)})
    for row in rows:
        try:
            secrets = Secrets.opened(row["secrets__sealed"], row["api_token__sealed"])
        except DecryptionFailed as error:
            log.error("secrets_locked", job_id=str(row["id"]), error=error.message)
            continue
        vc = row["vc_id"]
        found[row["id"]] = _Job(
            *(row, roles[row["id"]], secrets, limits[vc], logins, patterns.get(vc, [])),
            mounted[row["id"]],
            keys.get(row["owner_id"], ()) if _wants_own_keys(row) else (),
        )
    return found


Key = tuple[UUID, int, int | None]  # job, its attempt, and the rank of a task that starts alone


def _key(row: Row, jobs: Mapping[UUID, _Job]) -> Key:
    alone = jobs[row["job_id"]].starts_alone
    return row["job_id"], row["index"], row["task__rank"] if alone else None


def _peers(gangs: Mapping[Key, list[Row]], jobs: Mapping[UUID, _Job]) -> dict[Key, list[Row]]:
    """Return all tasks of these gangs by rank; a gang of one is known already."""
    peers = {key: rows if key[2] is not None else [] for key, rows in gangs.items()}
    wanted = Q()
    for job_id, index, rank in gangs:
        if rank is None:
            wanted |= Q(job=job_id, index=index)
    if wanted:
        rows = TaskAttempt.objects.filter(wanted).order_by("task__rank").values(*ATTEMPT)
        for row in rows:
            peers[_key(row, jobs)].append(row)
    return peers


def _networks(gangs: Mapping[Key, list[Row]]) -> dict[tuple[UUID, int], GangNetwork]:
    """Return the networks of gangs that have one, by job and its attempt; no query where none
    has."""
    wanted = Q()
    for (job_id, index, _), rows in gangs.items():
        if rows[0]["network"] == "gang":
            wanted |= Q(job=job_id, index=index)
    found = GangNetwork.objects.filter(wanted) if wanted else ()
    return {(network.job_id, network.index): network for network in found}


class _Builder:
    """Builds the specs of one gang's tasks."""

    def __init__(
        self, key: Key, job: _Job, peers: Sequence[Row], network: GangNetwork | None
    ) -> None:
        self._job = job
        self._attempt = key[1]
        self._commands: dict[int, tuple[str, bool]] = {}  # by role
        self._names = f"{key[0]}.{key[1]}"
        self._members = {row["id"]: self._member(row, key[2] is not None) for row in peers}
        self._network = _network(network, peers, self._members) if network else None
        self._files = job.working_files()
        self._work_dir = job.row["work_dir"] or (self._files.path if self._files else "")
        rendered = {k: job.secrets.rendered(str(v)) for k, v in job.row["environment"].items()}
        self._secret_env = {k: text for k, (text, secret) in rendered.items() if secret}
        if job.secrets.api_token:
            self._secret_env[TOKEN_VARIABLE] = job.secrets.api_token
        self._gang = self._gang_of(
            peers, {k: t for k, (t, secret) in rendered.items() if not secret}
        )
        self._environments = Environments(self._gang)

    def build(self, rows: Sequence[Row]) -> dict[UUID, BuiltSpec]:
        shared = self._shared()
        mounts = self._job.mounts
        refusals = {
            r["id"]: mounts.refusal_at(
                r["node__name"],
                inner_mounts=r["node__inner_mounts"],
                s3_mounts=r["node__s3_mounts"],
            )
            for r in rows
        }
        found = {}
        if len(rows) == 1:
            specs = {row["id"]: self._spec(row).with_shared(shared) for row in rows}
            for pk, spec in specs.items():
                text = spec.model_dump_json()
                refusal = refusals[pk]
                found[pk] = BuiltSpec(spec, None, len(text), text, "", refusal, mounts.buckets)
            return found
        common = shared.model_dump_json()
        part = len(common) // len(rows) + 1
        specs = {r["id"]: self._spec(r).model_copy(update={"shares": self._names}) for r in rows}
        for pk, spec in specs.items():
            text = spec.model_dump_json()
            size, refusal = len(text) + part, refusals[pk]
            found[pk] = BuiltSpec(spec, shared, size, text, common, refusal, mounts.buckets)
        return found

    def _member(self, row: Row, alone: bool) -> Member:
        role = self._job.roles[row["role_id"]]["name"]
        return Member(
            attempt_id=str(row["id"]),
            role=role,
            index=row["task__index"],
            rank=0 if alone else row["task__rank"],
            node=str(row["node_id"]),
            host=_host(row, role),
            ports=row["ports"],
        )

    def _gang_of(self, peers: Sequence[Row], own: Mapping[str, str]) -> Gang:
        row = self._job.row
        return Gang(
            job_id=str(row["id"]),
            name=row["name"],
            owner=row["owner__username"],
            vc=row["vc__name"],
            roles=[gang.Role(**{n: role[n] for n in NEEDS}) for role in self._job.roles.values()],
            members=list(self._members.values()),
            attempt=peers[0]["index"],
            network=peers[0]["network"],
            work_dir=self._work_dir,
            own=own,
        )

    def _shared(self) -> SharedSpec:
        files = self._ssh_files()
        masks = self._job.secrets.masks()
        keys = [file.content for file in files if file.mode == gang.PRIVATE]
        return SharedSpec(
            env=self._shared_env(),
            secret_env=self._secret_env,
            files=files,
            masks=[*masks, *masks_of(keys)] if keys else masks,
            gang=self._network,
            hosts=self._hosts(),
            mounts=self._job.mounts.all,
            s3=self._job.mounts.s3,
            image_patterns=self._job.patterns,
        )

    def _shared_env(self) -> dict[str, str]:
        env = {k: v for k, v in self._environments.shared.items() if k not in self._secret_env}
        if (home := self._job.mounts.home) and "HOME" not in self._secret_env:
            env = {"HOME": home} | env
        if self._job.secrets.api_token:
            env[URL_VARIABLE] = settings.SKEP_PUBLIC_URL.rstrip("/")
        return env

    def _hosts(self) -> dict[str, str]:
        """Return the names of its tasks in the nodes' own network, where no server resolves
        them."""
        if self._gang.network != "host":
            return {}
        return {hostname(m.role, m.index): m.host for m in self._gang.members}

    def _ssh_files(self) -> list[FileSpec]:
        if self._gang.is_alone and not self._job.ssh_plugins():
            return []
        key = ssh_key(self._job.row["id"], self._attempt)
        return gang.files_of_gang(self._gang, key, self._job.public_keys())

    def _spec(self, row: Row) -> AttemptSpec:
        job, role = self._job.row, self._job.roles[row["role_id"]]
        ulimits = (self._job.extras.get("skep") or {}).get("ulimits") or {}
        command, secret = self._command(role)
        ssh_server = bool(self._job.ssh_plugins(role["name"]))
        if ssh_server:
            command = gang.START_COMMAND + command
        elif self._job.ssh_plugins() and not self._gang.is_alone:
            command = gang.CLIENT_COMMAND + command
        return AttemptSpec(
            attempt_id=str(row["id"]),
            epoch=row["epoch"],
            job_id=str(job["id"]),
            job_name=job["name"],
            task_role=role["name"],
            task_index=row["task__index"],
            image=self._image(role["image"]),
            latest_images=bool(self._job.limits["latest_images"]),
            command=command,
            secret_command=secret,
            ssh_server=ssh_server,
            env=self._environments.own(self._members[row["id"]]),
            working_files=self._files,
            work_dir=self._work_dir,
            scratch_mb=(self._job.extras.get("skep") or {}).get("scratch") or 0,
            gpu_uuids=row["gpu_uuids"],
            cpus=role["cpu_millis"] / 1000,
            memory_mb=role["memory_mb"],
            shm_mb=role["shm_mb"],
            disk_mb=self._job.limits["container_disk_mb"],
            log_bytes=self._job.limits["log_bytes_per_job"],
            rdma=role["rdma"],
            ulimits={name: UNLIMITED if v == "unlimited" else v for name, v in ulimits.items()},
            network=row["network"],
            hostname=hostname(role["name"], row["task__index"]),
            ports={label: numbers for label, numbers in row["ports"].items() if numbers},
            stop_grace_s=job["stop_grace_s"],
            checkpoint_signal=job["checkpoint_signal"],
            checkpoint_grace_s=job["checkpoint_grace_s"],
        )

    def _command(self, role: Row) -> tuple[str, bool]:
        """Return the command and whether it has a secret; it is rendered once for all tasks of the
        role."""
        if role["id"] not in self._commands:
            self._commands[role["id"]] = self._job.secrets.rendered(role["command"])
        return self._commands[role["id"]]

    def _image(self, reference: str) -> ImageSpec:
        auth = self._job.secrets.auths.get(reference, {})
        if not auth.get("username"):
            job = self._job.row
            auth = self._job.logins.login(job["owner_id"], job["vc_id"], reference)
        username, password = auth.get("username", ""), auth.get("password", "")
        return ImageSpec(reference=reference, username=username, password=password)


def _host(row: Row, role: str) -> str:
    if row["network"] == "host":
        return str(row["node__address"])
    if row["network"] == "gang":
        return str(row["address"])
    if row["network"] == "job":
        return hostname(role, row["task__index"])
    return LOCALHOST


def _network(
    network: GangNetwork, peers: Sequence[Row], members: Mapping[UUID, Member]
) -> protocol.GangNetwork:
    start, end = network.addresses.lower, network.addresses.upper
    block = Block(start, end - start, len(peers))
    nodes: dict[str, protocol.GangNode] = {}
    for row in peers:
        name = row["node__name"]
        if name not in nodes:
            gateway = block.gateway(len(nodes))
            nodes[name] = protocol.GangNode(
                name=name, address=row["node__address"], gateway=gateway, tasks={}
            )
        member = members[row["id"]]
        nodes[name].tasks[hostname(member.role, member.index)] = row["address"]
    return protocol.GangNetwork(vni=network.vni, subnet=block.subnet, nodes=list(nodes.values()))


def ssh_key(job_id: object, attempt: int) -> Ed25519PrivateKey:
    """Return the key of one job attempt. It is derived from the server's key, the same each time:
    nothing to store, and no other job's containers know it."""
    return Ed25519PrivateKey.from_private_bytes(encryption.derive(f"ssh.{job_id}.{attempt}"))
