"""Whether a gang fits, by trying every way to seat every task: an oracle for small clusters."""

from __future__ import annotations

from skep_scheduler.state import Gang, Member, Snapshot

# Of a node: free GPUs per model, millicores, MiB.
Free = tuple[dict[str, int], int, int]
Task = tuple[str | None, int, int, int]  # model, GPUs, millicores, MiB


def could_start(state: Snapshot, gang: Gang) -> bool:
    """With what runs in `state`, on some GPU model that its quota allows."""
    models: list[str | None] = [None]
    if any(m.gpus and m.gpu_model is None for m in gang.members):
        models = sorted({model for node in state.nodes for model in node.gpus})
    return any(
        _quota_allows(state, gang, model) and _fits(_free(state), _tasks(gang, model))
        for model in models
    )


def _model(member: Member, chosen: str | None) -> str | None:
    return (member.gpu_model or chosen) if member.gpus else None


def _tasks(gang: Gang, chosen: str | None) -> list[Task]:
    return sorted(
        (
            (_model(m, chosen), m.gpus, m.cpu_millis, m.memory_mb)
            for m in gang.members
            for _ in range(m.count)
        ),
        key=lambda task: (task[1:], task[0] or ""),
        reverse=True,
    )


def _quota_allows(state: Snapshot, gang: Gang, chosen: str | None) -> bool:
    if gang.priority < 0:
        return True
    quota = {vc.name: vc.quota for vc in state.virtual_clusters}[gang.vc]
    needs: dict[str, int] = {}
    for m in gang.members:
        if model := _model(m, chosen):
            needs[model] = needs.get(model, 0) + m.count * m.gpus
    return all(_used(state, gang.vc, m) + n <= quota.get(m, 0) for m, n in needs.items())


def _used(state: Snapshot, vc: str, model: str) -> int:
    return sum(
        len(r.gpu_uuids)
        for r in state.running
        if r.vc == vc and r.gpu_model == model and r.priority >= 0
    )


def _free(state: Snapshot) -> list[Free]:
    held = {uuid for r in state.running for uuid in r.gpu_uuids}
    return [
        (
            {m: sum(uuid not in held for uuid in uuids) for m, uuids in node.gpus.items()},
            node.cpu_millis - sum(r.cpu_millis for r in state.running if r.node_id == node.id),
            node.memory_mb - sum(r.memory_mb for r in state.running if r.node_id == node.id),
        )
        for node in state.nodes
        if node.schedulable
    ]


def _fits(free: list[Free], tasks: list[Task], dead_ends: set[str] | None = None) -> bool:
    """The first task on each node in turn, then the others; no state is tried twice."""
    if not tasks:
        return True
    dead_ends = set() if dead_ends is None else dead_ends
    state = f"{len(tasks)} {sorted(map(repr, free))}"
    if state in dead_ends:
        return False
    for i, node in enumerate(free):
        left = _minus(node, tasks[0])
        if left is not None and _fits([*free[:i], left, *free[i + 1 :]], tasks[1:], dead_ends):
            return True
    dead_ends.add(state)
    return False


def _minus(node: Free, task: Task) -> Free | None:
    (gpus, cpu, memory), (model, needs, cpu_needs, memory_needs) = node, task
    if needs and gpus.get(model or "", 0) < needs:
        return None
    if (cpu_needs and cpu < cpu_needs) or (memory_needs and memory < memory_needs):
        return None
    after = {**gpus, model: gpus[model] - needs} if needs and model else gpus
    return after, cpu - cpu_needs, memory - memory_needs
