"""What every plan must hold, checked without trusting how it came about.

Run after every step in tests. It costs one pass over snapshot and plan, so production may switch
it on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from skep_scheduler.plan import Placement, Plan, TaskPlacement
from skep_scheduler.resources import NOTHING, Resources
from skep_scheduler.state import Gang, Member, Node, Snapshot


class InvariantError(AssertionError):
    """`stories` has one sentence per violation, with the gang, the node and the numbers."""

    def __init__(self, stories: list[str]) -> None:
        super().__init__("\n".join(stories))
        self.stories = stories


@dataclass(frozen=True, slots=True)
class PlacedTask:
    gang: Gang
    member: Member
    task: TaskPlacement

    @property
    def held(self) -> Resources:
        return Resources(len(self.task.gpu_uuids), self.member.cpu_millis, self.member.memory_mb)

    def __str__(self) -> str:
        return f"Task {self.task.role}-{self.task.index} of gang {self.gang.id} ({self.gang.name})"


def validate(snapshot: Snapshot, plan: Plan, now: float | None = None) -> None:
    """Raises `InvariantError` with every violation. Without `now`, backoffs are not checked."""
    gangs = {gang.id: gang for gang in snapshot.waiting}
    placed = [(gangs[p.gang_id], p) for p in plan.placements if p.gang_id in gangs]
    tasks = [task for gang, placement in placed for task in _tasks(gang, placement)]
    stories = [
        *_answers(gangs, plan),
        *(story for gang, placement in placed for story in _complete(gang, placement)),
        *(story for gang, placement in placed for story in _one_model(gang, placement)),
        *_gpus(snapshot, tasks),
        *_nodes(snapshot, tasks),
        *_quotas(snapshot, tasks),
    ]
    if now is not None:
        stories += [
            f"Gang {gang.id} ({gang.name}) is placed at {now}, but not before {gang.not_before}."
            for gang, _ in placed
            if gang.not_before > now
        ]
    if stories:
        raise InvariantError(stories)


def _tasks(gang: Gang, placement: Placement) -> list[PlacedTask]:
    members = {member.role: member for member in gang.members}
    return [
        PlacedTask(gang, members[task.role], task)
        for task in placement.tasks
        if task.role in members
    ]


def _answers(gangs: dict[str, Gang], plan: Plan) -> Iterator[str]:
    """Every waiting gang has exactly one answer, and nobody else has any."""
    answers = Counter([placement.gang_id for placement in plan.placements])
    answers.update(list(plan.reasons))
    for gang_id in sorted(gangs.keys() | answers.keys()):
        if gang_id not in gangs:
            yield f"Gang {gang_id} has an answer, but does not wait."
        elif answers[gang_id] != 1:
            yield f"Gang {gang_id} ({gangs[gang_id].name}) has {answers[gang_id]} answers."


def _complete(gang: Gang, placement: Placement) -> Iterator[str]:
    wanted = Counter((m.role, i) for m in gang.members for i in range(m.count))
    placed = Counter((task.role, task.index) for task in placement.tasks)
    for role, index in sorted(wanted.keys() | placed.keys()):
        if wanted[role, index] != placed[role, index]:
            yield (
                f"Gang {gang.id} ({gang.name}): task {role}-{index} is placed "
                f"{placed[role, index]} times instead of {wanted[role, index]}."
            )


def _one_model(gang: Gang, placement: Placement) -> Iterator[str]:
    """The model that was asked for; where none was, one for all of those tasks."""
    chosen = set()
    for task in _tasks(gang, placement):
        wanted, got = task.member.gpu_model, task.task.gpu_model
        if not task.member.gpus:
            if got is not None:
                yield f"{task} needs no GPU and got model {got}."
        elif wanted is None:
            chosen.add(got)
        elif wanted != got:
            yield f"{task} needs {wanted} and got {got}."
    if None in chosen or len(chosen) > 1:
        models = sorted(map(str, chosen))
        yield f"Gang {gang.id} ({gang.name}) needs any one GPU model and got {models}."


def _gpus(snapshot: Snapshot, tasks: list[PlacedTask]) -> Iterator[str]:
    nodes = {node.id: node for node in snapshot.nodes}
    owner = {
        uuid: f"running gang {running.gang_id}"
        for running in snapshot.running
        for uuid in running.gpu_uuids
    }
    for task in tasks:
        uuids = task.task.gpu_uuids
        if len(uuids) != task.member.gpus:
            yield f"{task} needs {task.member.gpus} GPUs and got {len(uuids)}."
        node = nodes.get(task.task.node_id)
        for uuid in uuids:
            if node is not None and uuid not in _healthy(node, task.task.gpu_model):
                yield f"{task}: {uuid} is no healthy {task.task.gpu_model} of node {node.name}."
            if uuid in owner:
                yield f"{task}: {uuid} is already held by {owner[uuid]}."
            owner[uuid] = f"gang {task.gang.id}"


def _healthy(node: Node, model: str | None) -> tuple[str, ...]:
    return node.gpus.get(model, ()) if model is not None else ()


def _nodes(snapshot: Snapshot, tasks: list[PlacedTask]) -> Iterator[str]:
    """Only open nodes, and CPU and memory within their size (a node may have shrunk under what
    runs on it: only what new tasks ask for is judged)."""
    nodes = {node.id: node for node in snapshot.nodes}
    used: dict[str, Resources] = defaultdict(lambda: NOTHING)
    for running in snapshot.running:
        held = Resources(0, running.cpu_millis, running.memory_mb)
        used[running.node_id] = used[running.node_id].plus(held)
    asked: dict[str, Resources] = defaultdict(lambda: NOTHING)
    for task in tasks:
        node_id = task.task.node_id
        if node_id not in nodes or not nodes[node_id].schedulable:
            yield f"{task} is placed on node {node_id}, which is not open."
        asked[node_id] = asked[node_id].plus(task.held)
    for node_id in sorted(asked.keys() & nodes.keys()):
        yield from _over(nodes[node_id], used[node_id], asked[node_id])


def _over(node: Node, used: Resources, asked: Resources) -> Iterator[str]:
    sizes = [("millicores", node.cpu_millis, used.cpu_millis, asked.cpu_millis)]
    sizes += [("MiB", node.memory_mb, used.memory_mb, asked.memory_mb)]
    for unit, size, before, more in sizes:
        if more and before + more > size:
            yield f"Node {node.name} has {size} {unit}, {before} are used and {more} more given."


def _quotas(snapshot: Snapshot, tasks: list[PlacedTask]) -> Iterator[str]:
    """No guaranteed gang is placed beyond its VC's quota (which may have been cut under load)."""
    quota = {vc.name: vc.quota for vc in snapshot.virtual_clusters}
    used: Counter[tuple[str, str]] = Counter()
    for running in snapshot.running:
        if running.gpu_model is not None and not running.opportunistic:
            used[running.vc, running.gpu_model] += len(running.gpu_uuids)
    asked: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        if task.gang.vc not in quota:
            yield f"{task} is placed for VC {task.gang.vc}, which does not exist."
        if task.task.gpu_model is not None and not task.gang.opportunistic:
            asked[task.gang.vc, task.task.gpu_model] += len(task.task.gpu_uuids)
    for (vc, model), gpus in sorted(asked.items()):
        owns = quota.get(vc, {}).get(model, 0)
        if gpus and used[vc, model] + gpus > owns:
            yield f"VC {vc} owns {owns} {model}, uses {used[vc, model]} and was given {gpus} more."
