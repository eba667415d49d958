"""The facts that a scheduler works on: plain data, complete and without a clock.

GPUs are named by UUID, nodes by name, virtual clusters by name, gangs by id. Quantities are whole
numbers (millicores, MiB, GPUs), times are seconds since the epoch, durations seconds.

A GPU comes with its share of its node: CPU and memory divided by the number of GPUs. What a gang
uses on a node beyond the shares of its GPUs there is borrowed (a gang without GPUs borrows all that
it uses): it may have whatever is idle, but a guaranteed gang that stays within its shares may
preempt it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, known for ever by its UUID. `index` is its number on the node (HiveD's address)."""

    uuid: str
    model: str
    index: int
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """`topology` has the level between pairs of UUIDs (`nvidia-smi topo -m` words), and may be
    empty. `labels` may have `rack` and `fabric`. Not `schedulable`: offline, lost or cordoned;
    `cordoned` says that an admin closed it (its hardware is not at fault). `maintenance`: its next
    window of maintenance, from and until (seconds since the epoch), in which nothing runs there."""

    name: str
    cpu_millis: int
    memory_mb: int
    devices: tuple[Device, ...] = ()
    schedulable: bool = True
    topology: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    cordoned: bool = False
    maintenance: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """`number` cells of a type that a VC owns. `chain` "" is a count claim: `cell_type` is a GPU
    model, and `number` GPUs of it are owned in the largest cells that fit."""

    chain: str
    cell_type: str
    number: int


@dataclass(frozen=True, slots=True)
class Pin:
    """The cell of `cell_type` that contains the node (and the device, below node level)."""

    name: str
    cell_type: str
    node: str
    device: str = ""
    vc: str = ""  # "": not assigned yet


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy by its registered name, with the parameters that differ from its defaults. "" is
    the default policy."""

    name: str = ""
    parameters: tuple[tuple[str, str | int | float], ...] = ()


@dataclass(frozen=True, slots=True)
class UserLimits:
    """What the gangs of one owner may hold at a time in a virtual cluster, guaranteed and
    opportunistic ones together. None: no limit."""

    gpus: int | None = None
    gangs: int | None = None

    def __bool__(self) -> bool:
        return self.gpus is not None or self.gangs is not None


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """What a virtual cluster owns, the policy that orders its guaranteed gangs, and what each of
    its users may hold. `services`: the GPU-seconds of each of its last gangs that ended, the first
    that ended first, where its policy goes by them."""

    name: str
    claims: tuple[Claim, ...] = ()
    policy: PolicyChoice = PolicyChoice()
    user_limits: UserLimits = UserLimits()
    services: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that the cells are made of. `layout` is an imported HiveD file as plain data: nodes that
    it names are as it says, all others as their agents report."""

    nodes: tuple[Node, ...] = ()
    virtual_clusters: tuple[VirtualCluster, ...] = ()
    pins: tuple[Pin, ...] = ()
    layout: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ElasticRange:
    """With how many tasks a role may run: at least `min`, at most `max`; `asked` is the number that
    it starts with where no policy chooses another one. `speedup`: how fast the gang is with a
    number of tasks, as declared: pairs of a number and a speed relative to the others."""

    min: int
    max: int
    asked: int
    speedup: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One task role: `count` equal tasks, each of `gpus` GPUs, or of `cells` cells of `cell_type`.
    They shall lie within one cell of type `within`, if that is given. `elastic`: its number of
    tasks may be chosen anew at each start; `count` is that of now, or the one asked for where it
    waits."""

    role: str
    count: int
    gpus: int
    cpu_millis: int
    memory_mb: int
    gpu_model: str | None = None  # None: any one model
    cell_type: str | None = None
    cells: int = 0
    within: str | None = None
    parallelism: int | None = None  # tasks that may hold places at a time; None: all of them
    affinity_group: str = ""  # members of one group lie in one chain; "" is the gang's own group
    elastic: ElasticRange | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """A job as the scheduler sees it: all of its tasks start, or none; or, if it is `incremental`,
    each task as soon as it finds a place. Priorities are -1 (opportunistic), or 0 to 1000.

    `attained_gpu_s`: the GPU-seconds that its tasks ran on GPUs which they have released since, in
    all attempts. Add what it holds now to get the service that it attained so far.

    `progress`: the share of the work that is done, 0 to 1, or None where it is not known. It is
    known for an incremental gang that holds or has held places in its present attempt: the share of
    its tasks that succeeded, since each is work of its own. The tasks of any other gang work on one
    thing together and end together, so that their number says nothing about how far they are.

    `deadline_at`: when its owner needs it to be done (seconds since the epoch), or None. Nothing
    ends it then.

    `leave_s`, `warmup_s`: how long jobs like it took to save and leave when they were preempted,
    and from a start to their first metric or line (seconds), or None where that was not measured.

    `speeds`: how fast it runs on GPU models, as declared: pairs of a model and a speed relative to
    the others.
    """

    id: str
    name: str
    vc: str
    priority: int
    submitted_at: float
    members: tuple[Member, ...]
    not_before: float = 0.0  # retry backoff: not placed earlier
    waits_since: float | None = None  # since it was queued again; None: since it was submitted
    within: str | None = None  # all of it within one cell of this type
    pin: str | None = None
    lazy: bool = False  # is made opportunistic instead of being preempted
    preemptible: bool = True  # False: only for opportunistic use is it ever preempted
    incremental: bool = False
    duration_s: float | None = None  # declared: it does not run longer; None: unknown
    predicted_s: float | None = None  # how long it will probably run; None: no prediction
    leave_s: float | None = None
    warmup_s: float | None = None
    deadline_at: float | None = None
    owner: str = ""
    attained_gpu_s: float = 0.0
    progress: float | None = None
    # Why it is opportunistic although its owner gave it a guaranteed priority, as a sentence.
    demotion: str = ""
    # Nodes on which it failed, and until when it rather waits than goes there again.
    avoid: tuple[tuple[str, float], ...] = ()
    speeds: tuple[tuple[str, float], ...] = ()

    def avoids(self, now: float) -> dict[str, float]:
        """Return the nodes that it avoids, each with the moment until which it does."""
        return {node: until for node, until in self.avoid if until > now}

    @property
    def expected_s(self) -> float | None:
        """Return how long it probably runs (seconds): as predicted, else as declared."""
        return self.predicted_s if self.predicted_s is not None else self.duration_s

    @property
    def left_s(self) -> float | None:
        """Return how long it probably has to run yet (seconds) at the size that it asks for, as of
        its last release of places. A job that overruns its estimate is never taken for done."""
        expected = self.expected_s
        if expected is None:
            return None
        ran = self.attained_gpu_s / self.gpus if self.gpus else 0.0
        return max(expected - ran, 0.05 * ran)

    @property
    def restart_s(self) -> float:
        """Return what a preemption of it costs (seconds), as far as it was measured."""
        return (self.leave_s or 0.0) + (self.warmup_s or 0.0)

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0

    @property
    def tasks(self) -> int:
        return sum(member.count for member in self.members)

    @property
    def elastic(self) -> ElasticRange | None:
        """Return within what its number of tasks may be chosen; None: it always has the same."""
        return next((m.elastic for m in self.members if m.elastic is not None), None)

    @property
    def elastic_role(self) -> str:
        """Return the role whose number of tasks may be chosen; "": none."""
        return next((m.role for m in self.members if m.elastic is not None), "")

    def as_asked(self) -> Gang:
        """Return the gang with the number of tasks that it asks for."""
        return self.resized(self.elastic.asked) if self.elastic is not None else self

    def resized(self, tasks: int) -> Gang:
        """Return the gang with so many tasks of its elastic role."""
        members = (replace(m, count=tasks) if m.elastic else m for m in self.members)
        return replace(self, members=tuple(members))

    @property
    def gpus(self) -> int:
        """Return the GPUs of all its tasks, of those that ask for GPUs by number."""
        return sum(member.count * member.gpus for member in self.members)


@dataclass(frozen=True, slots=True)
class TaskAllocation:
    """A task that holds its place until its GPUs are clean. `cell_type` is the type of the
    preassigned cell that it uses, "" for an opportunistic one."""

    role: str
    index: int  # within the role
    node: str
    gpu_uuids: tuple[str, ...]
    cpu_millis: int
    memory_mb: int
    cell_type: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A gang that holds places. `downgraded`: it runs opportunistically although its priority is
    guaranteed. `leaving`: it was asked to end, or is being preempted. `complete`: all of its tasks
    have places (always so, unless it is incremental); if not, `unplaced` are the (role, index) of
    the tasks that still wait for one, and `delays` those of them that failed and do not start again
    before a moment."""

    gang: Gang
    tasks: tuple[TaskAllocation, ...]
    placed_at: float
    downgraded: bool = False
    leaving: bool = False
    complete: bool = True
    unplaced: tuple[tuple[str, int], ...] = ()
    delays: tuple[tuple[str, int, float], ...] = ()

    @property
    def gpus(self) -> int:
        """Return the GPUs that it holds."""
        return sum(len(task.gpu_uuids) for task in self.tasks)

    def served(self, now: float) -> Gang:
        """Return the gang with the service that it attained up to now."""
        return replace(self.gang, attained_gpu_s=self.attained_gpu_s(now))

    def attained_gpu_s(self, now: float) -> float:
        """Return the GPU-seconds that the gang attained up to now."""
        ran = max(now - self.placed_at, 0.0) * self.gpus
        return self.gang.attained_gpu_s + ran
